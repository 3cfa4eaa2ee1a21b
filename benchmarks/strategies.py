"""Strategies: the same job trained in all six ways, beside each other. `make strategies` prints the table.

Two servers and two trainers where the strategy has them, one process for single, on the Criteo sample if there is one
(first 80 % in time train, last 20 % test) and on synthetic rows, with the settings of a job that names only data,
model and strategy. Wanted: within 0.003 of single's AUC on the real rows, 0.005 on synthetic ones. sync and
collective take steps of two batches, so they are another optimisation, and are listed without a wish.

Results: benchmarks/results/strategies.json and strategies.md.
"""

from __future__ import annotations

import argparse
import statistics

from rich.table import Table

from clickline import Job
from clusters import train
from datasets import ABSENT, Rows, criteo_path, real, synthetic
from rounds import Report, console, sections_of
from sections import guarded, parser_for

WAYS = ("single", "sync", "async", "half_async", "geo", "collective")
STALE = ("async", "half_async", "geo")
SERVED = ("sync", "async", "half_async", "geo")


def main() -> None:
    arguments = _arguments()
    report = Report("strategies")
    path = criteo_path(arguments.criteo)
    if path is None:
        console.print(f"  real rows skipped: {ABSENT}", highlight=False)
    else:
        compare(report, "Criteo", real(path), arguments, wanted=0.003)
    compare(report, "synthetic", synthetic(arguments.rows), arguments, wanted=0.005)
    report.finish()


def compare(report: Report, name: str, rows: Rows, arguments: argparse.Namespace, *, wanted: float) -> None:
    table = Table("strategy", "test AUC", "logloss", "rows/s", title=f"{name}, {rows.train_rows:,} rows")
    means = {}
    for way in arguments.ways:
        runs = [train(job_of(rows, way, seed, arguments.model)) for seed in arguments.seeds]
        aucs = [run.test["auc"] for run in runs]
        speeds = [run.rows_per_second for run in runs]
        means[way] = statistics.mean(aucs)
        logloss = statistics.mean(run.test["logloss"] for run in runs)
        report.figures[f"{name}, {way}, AUC"] = {"median": statistics.median(aucs), "rounds": aucs, "unit": "test AUC"}
        report.figure(f"{name}, {way}, logloss", logloss, unit="logloss")
        report.figure(f"{name}, {way}, rows/s", round(statistics.median(speeds), 1), unit="rows/s")
        table.add_row(way, f"{means[way]:.4f}", f"{logloss:.4f}", f"{statistics.median(speeds):,.0f}")
        console.print(f"  {name}  {way}: AUC {', '.join(f'{auc:.4f}' for auc in aucs)}", highlight=False)
    console.print(table)
    for way in STALE:
        if way in means and "single" in means:
            report.ratio(f"{name}: {way} - single, AUC", means[way] - means["single"], wanted=-wanted)


def job_of(rows: Rows, way: str, seed: int, model: str) -> Job:
    return Job.model_validate(
        {
            "seed": seed,
            "strategy": way,
            "data": {"train": [str(rows.train)], "test": [str(rows.test)]},
            "model": {"name": model},
            "train": {"tensorboard": False},
            "cluster": {"pservers": 2 if way in SERVED else 0, "trainers": 1 if way == "single" else 2},
        }
    )


def _arguments() -> argparse.Namespace:
    parser = parser_for(__doc__, example="python benchmarks/strategies.py --ways single,async --seeds 1,2,3")
    parser.add_argument("--criteo", metavar="PATH", help="Criteo sample, .tsv or .tsv.zst (default: $CLICKLINE_CRITEO)")
    parser.add_argument("--rows", type=int, default=400_000, help="synthetic rows to train on (default %(default)s)")
    parser.add_argument("--model", default="deepfm", help="default %(default)s")
    parser.add_argument(
        "--ways", type=sections_of(WAYS), default=list(WAYS), metavar="WAY,…", help=f"of {', '.join(WAYS)}"
    )
    parser.add_argument(
        "--seeds",
        type=lambda text: [int(part) for part in text.split(",")],
        default=[1],
        metavar="N,…",
        help="default 1",
    )
    return parser.parse_args()


if __name__ == "__main__":
    guarded(main)
