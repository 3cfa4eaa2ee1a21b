"""Cube benchmarks, beside peers in the same run. `make bench-cube` runs all of it.

network   one server thread against one client process over loopback, beside Redis
lookup    the dictionary in-process, beside LMDB, RocksDB and numpy searchsorted; resident bytes per key
delivery  from the donefile's line to the last shard serving, a base and a delta
size      open time, lookup rate and bytes per key from 10^5 to 10^8 keys

Results: benchmarks/results/cube.json and cube.md (cube-SECTION… if not all sections run).
"""

from __future__ import annotations

import cube_delivery
import cube_lookup
import cube_network
from sections import guarded, parser_for, run_sections


def main() -> None:
    run_sections(
        "cube",
        {
            "network": lambda report, given: cube_network.run(report, rounds=given.rounds),
            "lookup": lambda report, given: cube_lookup.run(report, rounds=given.rounds),
            "delivery": lambda report, given: cube_delivery.run(report, rounds=given.rounds),
            "size": lambda report, given: cube_lookup.size(report),
        },
        parser_for(__doc__, example="python benchmarks/cube.py --only network --rounds 3"),
    )


if __name__ == "__main__":
    guarded(main)
