"""Training benchmarks: speed and memory, beside peers in the same run. `make bench-train` runs all of it.

core    D the dense network alone, P plain PyTorch, C Clickline from memory, T Clickline from text
parse   raw text to keys on one core, beside polars, pyarrow and pandas
lr      logistic regression beside Vowpal Wabbit
deep    dnn and deepfm beside FuxiCTR
memory  bytes per table row; peak memory of short and long logs

Results: benchmarks/results/train.json and train.md (train-SECTION… if not all sections run).
"""

from __future__ import annotations

import argparse
import sys

import torch

import core
import deep
import linear
import memory
import parsing
from datasets import criteo_path, real, synthetic
from peers import PeerError
from rounds import Report, console, sections_of
from training import THREADS

SECTIONS = ("core", "parse", "lr", "deep", "memory")


def main() -> None:
    arguments = _arguments()
    torch.set_num_threads(THREADS)
    rows = synthetic(arguments.rows)
    criteo = criteo_path(arguments.criteo)
    everything = arguments.only == list(SECTIONS)
    report = Report("train" if everything else "-".join(["train", *arguments.only]))
    for place, section in enumerate(arguments.only):
        console.rule(f"{place + 1}/{len(arguments.only)} {section}", align="left")
        if section == "core":
            core.run(report, rows, rounds=arguments.rounds)
        elif section == "parse":
            parsing.run(report, rows, rounds=arguments.rounds)
        elif section == "lr":
            linear.run(report, rows, rounds=arguments.rounds, real=real(criteo) if criteo else None)
        elif section == "deep":
            deep.run(report, rows, rounds=arguments.rounds)
        else:
            memory.run(report, rows, table_rows=arguments.table_rows)
    report.finish()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog="example: python benchmarks/train.py --only core,parse --rounds 5",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each contender (default %(default)s)")
    parser.add_argument("--rows", type=int, default=400_000, help="synthetic rows to train on (default %(default)s)")
    parser.add_argument(
        "--only", type=sections_of(SECTIONS), default=list(SECTIONS), metavar="SECTION,…", help="sections to run"
    )
    parser.add_argument("--criteo", metavar="PATH", help="Criteo sample, .tsv or .tsv.zst (default: $CLICKLINE_CRITEO)")
    parser.add_argument(
        "--table-rows", type=int, default=memory.TABLE_ROWS, help="rows of the measured table (default %(default)s)"
    )
    return parser.parse_args()


if __name__ == "__main__":
    try:
        main()
    except PeerError as error:
        sys.exit(str(error))
