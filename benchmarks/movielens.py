"""Quality on histories and on two labels: test AUC on MovieLens 1M of models that Criteo's rows have nothing for.

The rows are those of `clickline data import movielens`: four stars are a click, the last fifth in time tests, and a row
has what its user liked before. din reads those histories; mmoe learns `label` and `five_stars` together; deepfm, the
default model, is beside them. Settings are those of the imported job, with three seeds.

GroupLens' terms forbid handing the ratings on: --movielens or CLICKLINE_MOVIELENS say where your ml-1m.zip is. What is
done is kept in .bench/quality.json until the code changes. Results: benchmarks/results/movielens.json and movielens.md.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from pathlib import Path
from typing import Any

from rich.table import Table

from clickline import Job
from clickline.config.loading.reader import read_job
from clickline.data.importers import import_movielens
from datasets import DATA
from quality import Kept, scored, seeds
from rounds import Report, console, sections_of
from sections import guarded, parser_for

VARIABLE = "CLICKLINE_MOVIELENS"
MODELS = ("deepfm", "din", "mmoe")
FIGURES = ("auc", "gauc", "logloss", "five_stars.auc")


def main() -> None:
    arguments = _arguments()
    named = arguments.movielens or os.environ.get(VARIABLE)
    if not named:
        sys.exit(f"no ratings: say where ml-1m.zip is by --movielens PATH or {VARIABLE}=PATH")
    kept = Kept(again=arguments.again)
    jobs = _jobs(named)
    scores = {model: scored(model, jobs[model], arguments.seeds, kept, names=FIGURES) for model in arguments.models}
    report = Report("movielens" if arguments.models == list(MODELS) else "-".join(["movielens", *arguments.models]))
    table = Table("model", *FIGURES)
    for model, figures in scores.items():
        for name, values in figures.items():
            title = model if name == "auc" else f"{model}, {name}"
            report.figures[title] = {"median": statistics.median(values), "rounds": values, "unit": f"test {name}"}
        means = {name: statistics.mean(values) for name, values in figures.items()}
        report.figure(f"{model}, mean", means["auc"], unit="test AUC")
        table.add_row(model, *(f"{means[name]:.4f}" if name in means else "" for name in FIGURES))
    console.print(table)
    report.finish()


def _jobs(source: str) -> dict[str, Job]:
    """The imported job for each model."""
    imported = import_movielens(source, DATA / "movielens", two_labels=True, force=True)
    two = read_job(imported.job).job
    one: dict[str, Any] = {"features": two.features.model_copy(update={"labels": ["label"]})}
    din = two.model.model_validate({"name": "din", "params": {"sequence_length": 20}})
    return {
        "deepfm": two.model_copy(update=one | {"model": two.model.model_validate({"name": "deepfm"})}),
        "din": two.model_copy(update=one | {"model": din}),
        "mmoe": two,
    }


def _arguments() -> argparse.Namespace:
    parser = parser_for(__doc__, example="python benchmarks/movielens.py --movielens ml-1m.zip --models din")
    parser.add_argument("--movielens", metavar="PATH", type=_file, help=f"ml-1m.zip (default: ${VARIABLE})")
    parser.add_argument(
        "--models", type=sections_of(MODELS), default=list(MODELS), metavar="MODEL,…", help=f"of {', '.join(MODELS)}"
    )
    parser.add_argument("--seeds", type=seeds, default=[1, 2, 3], metavar="N,…", help="default 1,2,3")
    parser.add_argument("--again", action="store_true", help="forget what an earlier run has kept")
    return parser.parse_args()


def _file(text: str) -> str:
    if not Path(text).exists():
        raise argparse.ArgumentTypeError(f"{text!r}: no such file; expected is ml-1m.zip, which GroupLens offers")
    return text


if __name__ == "__main__":
    guarded(main)
