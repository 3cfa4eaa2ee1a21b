"""Knobs: values of one key of `cluster` beside each other, in alternating rounds of whole runs.

Two servers and two trainers train the same rows once with each value, and again, so that whatever the machine does
meanwhile, it does to all values. Printed are test AUC, rows per second and bytes on the wire per row, with the spread
of each over the rounds: a difference of medians that is smaller than the spread is not decided. The ratio is that of
each value to the first one.

Results: benchmarks/results/knob-NAME.json and .md, where NAME is the key's last part.
"""

from __future__ import annotations

import argparse
import statistics
from typing import Any

from clickline import Job
from clusters import Outcome, train
from datasets import criteo_path, real, synthetic
from rounds import Report, console
from sections import guarded, parser_for

FIGURES = {"AUC": "test AUC", "rows/s": "rows/s", "bytes": "bytes/row"}


def main() -> None:
    arguments = _arguments()
    key, _, listed = arguments.knob.partition("=")
    values = listed.split(",")
    path = criteo_path(arguments.criteo)
    rows = synthetic(arguments.rows) if path is None else real(path)
    report = Report(f"knob-{key.rpartition('.')[2]}{'-' + arguments.strategy if arguments.strategy != 'async' else ''}")
    seen: dict[str, list[dict[str, float]]] = {value: [] for value in values}
    for number in range(arguments.rounds):
        for value in values if number % 2 == 0 else reversed(values):
            settings = settings_of(rows.train, rows.test, arguments, seed=number + 1)
            place = settings["cluster"]
            *sections, name = key.split(".")
            for section in sections:
                place = place.setdefault(section, {})
            place[name] = int(value) if value.isdigit() else value
            figures = figures_of(train(Job.model_validate(settings)))
            seen[value].append(figures)
            shown = ", ".join(f"{name} {figure:,.4g}" for name, figure in figures.items())
            console.print(f"  round {number + 1}/{arguments.rounds}  {key}={value}: {shown}", highlight=False)
    for name, unit in FIGURES.items():
        medians = {}
        for value, found in seen.items():
            all_ = [figures[name] for figures in found]
            medians[value] = statistics.median(all_)
            report.figures[f"{key}={value}, {name}"] = {"median": medians[value], "rounds": all_, "unit": unit}
            console.print(
                f"  {key}={value}  {name}: median {medians[value]:,.5g}, {min(all_):,.5g} to {max(all_):,.5g}",
                highlight=False,
            )
        for value in values[1:]:
            report.ratio(f"{key}={value} / {values[0]}, {name}", medians[value] / medians[values[0]], wanted=0.0)
    report.finish()


def figures_of(outcome: Outcome) -> dict[str, float]:
    members = [member for member in outcome.status["members"] if member["role"] == "trainer"]
    moved = sum(member["bytes_sent"] + member["bytes_received"] for member in members)
    return {"AUC": outcome.test["auc"], "rows/s": outcome.rows_per_second, "bytes": moved / outcome.rows}


def settings_of(train_file: Any, test_file: Any, arguments: argparse.Namespace, *, seed: int) -> dict[str, Any]:
    return {
        "seed": seed,
        "strategy": arguments.strategy,
        "data": {"train": [str(train_file)], "test": [str(test_file)]},
        "model": {"name": arguments.model},
        "train": {"tensorboard": False, "epochs": arguments.epochs},
        "cluster": {"pservers": 2, "trainers": 2},
    }


def _arguments() -> argparse.Namespace:
    parser = parser_for(__doc__, example="python benchmarks/knobs.py --knob agree.prefetch=0,1 --rounds 7")
    parser.add_argument("--knob", default="agree.prefetch=0,1", help="KEY=VALUE,VALUE below cluster (%(default)s)")
    parser.add_argument("--strategy", default="async", help="default %(default)s")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each value (default %(default)s)")
    parser.add_argument("--criteo", metavar="PATH", help="Criteo sample, .tsv or .tsv.zst (default: $CLICKLINE_CRITEO)")
    parser.add_argument("--rows", type=int, default=200_000, help="synthetic rows to train on (default %(default)s)")
    parser.add_argument("--epochs", type=int, default=2, help="default %(default)s")
    parser.add_argument("--model", default="deepfm", help="default %(default)s")
    return parser.parse_args()


if __name__ == "__main__":
    guarded(main)
