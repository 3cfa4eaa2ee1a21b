"""Cube benchmarks, beside peers in the same run. `make bench-cube` runs all of it.

network   one server thread against one client process over loopback, beside Redis
lookup    the dictionary in-process, beside LMDB, RocksDB and numpy searchsorted; resident bytes per key
delivery  from the donefile's line to the last shard serving, a base and a delta
size      open time, lookup rate and bytes per key from 10^5 to 10^8 keys

Results: benchmarks/results/cube.json and cube.md (cube-SECTION… if not all sections run).
"""

from __future__ import annotations

import argparse
import sys

import cube_delivery
import cube_lookup
import cube_network
from peers import PeerError
from rounds import Report, console, sections_of

SECTIONS = ("network", "lookup", "delivery", "size")


def main() -> None:
    arguments = _arguments()
    everything = arguments.only == list(SECTIONS)
    report = Report("cube" if everything else "-".join(["cube", *arguments.only]))
    for place, section in enumerate(arguments.only):
        console.rule(f"{place + 1}/{len(arguments.only)} {section}", align="left")
        if section == "network":
            cube_network.run(report, rounds=arguments.rounds)
        elif section == "lookup":
            cube_lookup.run(report, rounds=arguments.rounds)
        elif section == "delivery":
            cube_delivery.run(report, rounds=arguments.rounds)
        else:
            cube_lookup.size(report)
    report.finish()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog="example: python benchmarks/cube.py --only network --rounds 3",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each contender (default %(default)s)")
    parser.add_argument(
        "--only", type=sections_of(SECTIONS), default=list(SECTIONS), metavar="SECTION,…", help="sections to run"
    )
    return parser.parse_args()


if __name__ == "__main__":
    try:
        main()
    except PeerError as error:
        sys.exit(str(error))
