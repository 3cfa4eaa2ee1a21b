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
from functools import cache

import torch

import core
import deep
import linear
import memory
import parsing
from datasets import Rows, criteo_path, real, synthetic
from rounds import Report
from sections import guarded, parser_for, run_sections
from training import THREADS

rows_of = cache(synthetic)


def main() -> None:
    torch.set_num_threads(THREADS)
    parser = parser_for(__doc__, example="python benchmarks/train.py --only core,parse --rounds 5")
    parser.add_argument("--rows", type=int, default=400_000, help="synthetic rows to train on (default %(default)s)")
    parser.add_argument("--criteo", metavar="PATH", help="Criteo sample, .tsv or .tsv.zst (default: $CLICKLINE_CRITEO)")
    parser.add_argument(
        "--table-rows", type=int, default=memory.TABLE_ROWS, help="rows of the measured table (default %(default)s)"
    )
    run_sections(
        "train",
        {
            "core": lambda report, given: core.run(report, _rows(given), rounds=given.rounds),
            "parse": lambda report, given: parsing.run(report, _rows(given), rounds=given.rounds),
            "lr": _lr,
            "deep": lambda report, given: deep.run(report, _rows(given), rounds=given.rounds),
            "memory": lambda report, given: memory.run(report, _rows(given), table_rows=given.table_rows),
        },
        parser,
    )


def _rows(given: argparse.Namespace) -> Rows:
    return rows_of(given.rows)


def _lr(report: Report, given: argparse.Namespace) -> None:
    criteo = criteo_path(given.criteo)
    linear.run(report, _rows(given), rounds=given.rounds, real=real(criteo) if criteo else None)


if __name__ == "__main__":
    guarded(main)
