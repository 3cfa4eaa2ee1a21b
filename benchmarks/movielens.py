"""Quality on MovieLens 1M: test AUC of clicks, of models that Criteo's rows have nothing for; RMSE and MAE of ratings.

The rows are those of `clickline data import movielens`: four stars are a click, the last fifth in time tests, and a row
has what its user liked before.

clicks: din reads those histories; mmoe learns `label` and `five_stars` together; deepfm, the default model, is beside
them. Settings are those of the imported job.yaml, with three seeds.

ratings: the same rows with the rating as a number (`train.loss: squared`, the imported rating.yaml), beside the mean of
all ratings and a matrix factorization, as `clickline example movielens` has them. Nearly half of the test rows are of
users who have no rating in the training rows.

With --sections, the other section's figures stay as they were. GroupLens' terms forbid handing the ratings on:
--movielens or CLICKLINE_MOVIELENS say where your ml-1m.zip is. What is done is kept in .bench/quality.json until the
code changes. Results: benchmarks/results/movielens.json and movielens.md.
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
from clickline.data.importers import Imported, import_movielens
from clickline.examples.movielens_example import baselines
from datasets import DATA
from quality import Kept, scored, seeds
from rounds import Report, console, sections_of
from sections import guarded, parser_for

VARIABLE = "CLICKLINE_MOVIELENS"
MODELS = ("deepfm", "din", "mmoe")
FIGURES = ("auc", "gauc", "logloss", "five_stars.auc")


SECTIONS = ("clicks", "ratings")
RATING_FIGURES = ("rmse", "mae")
WANTED_BEST, WANTED_BESIDE_MEAN, WANTED_BESIDE_FACTORS = 0.76, 1.15, 1.0
"""Of the AUC; and how many times the model's RMSE that of the mean, and of the factorization, should be at least."""


def main() -> None:
    arguments = _arguments()
    named = arguments.movielens or os.environ.get(VARIABLE)
    if not named:
        sys.exit(f"no ratings: say where ml-1m.zip is by --movielens PATH or {VARIABLE}=PATH")
    kept = Kept(again=arguments.again)
    imported = import_movielens(named, DATA / "movielens", two_labels=True, force=True)
    report = Report("movielens" if arguments.models == list(MODELS) else "-".join(["movielens", *arguments.models]))
    if arguments.sections != list(SECTIONS):
        report.keep()
    if "clicks" in arguments.sections:
        jobs = _jobs(read_job(imported.job).job)
        _clicks(report, {name: jobs[name] for name in arguments.models}, arguments.seeds, kept)
    if "ratings" in arguments.sections:
        _ratings(report, imported, arguments.seeds, kept)
    report.finish()


def _clicks(report: Report, jobs: dict[str, Job], seeds: list[int], kept: Kept) -> None:
    scores = {model: scored(model, job, seeds, kept, names=FIGURES) for model, job in jobs.items()}
    table = Table("model", *FIGURES)
    for model, figures in scores.items():
        for name, values in figures.items():
            title = model if name == "auc" else f"{model}, {name}"
            report.figures[title] = {"median": statistics.median(values), "rounds": values, "unit": f"test {name}"}
        means = {name: statistics.mean(values) for name, values in figures.items()}
        report.figure(f"{model}, mean", means["auc"], unit="test AUC")
        table.add_row(model, *(f"{means[name]:.4f}" if name in means else "" for name in FIGURES))
    console.print(table)
    best = max(statistics.mean(figures["auc"]) for figures in scores.values())
    report.ratio("best AUC of clicks", best, wanted=WANTED_BEST)


def _ratings(report: Report, imported: Imported, seeds: list[int], kept: Kept) -> None:
    table = Table("ratings", "RMSE", "MAE", "AUC of four stars or more")
    rmse = {}
    for score in baselines(imported):
        found = {"rmse": score.rmse or 0.0, "mae": score.mae or 0.0, "auc": score.auc or 0.0}
        rmse[score.model] = found["rmse"]
        table.add_row(score.model, *(f"{value:.4f}" for value in found.values()))
        for figure, value in found.items():
            report.figure(f"ratings: {score.model}, {figure}", value, unit=f"test {figure}")
    table.add_section()
    job, ours = read_job(imported.other_jobs[0]).job, {}
    for model, settings in (("din", job.model.model_dump()), ("deepfm", {"name": "deepfm"})):
        # One thread, so that the figures are the same on every machine.
        seeded = job.model_copy(update={"model": job.model.model_validate(settings), "threads": 1})
        figures = scored(f"{model} on ratings", seeded, seeds, kept, names=RATING_FIGURES)
        for figure, values in figures.items():
            summary = {"median": statistics.median(values), "rounds": values, "unit": f"test {figure}"}
            report.figures[f"ratings: {model}, {figure}"] = summary
        ours[model] = statistics.mean(figures["rmse"])
        clicks = report.figures.get(f"{model}, mean", {}).get("median")
        means = (f"{statistics.mean(figures[figure]):.4f}" for figure in RATING_FIGURES)
        table.add_row(model, *means, "" if clicks is None else f"{clicks:.4f} (trained on clicks)")
    console.print(table)
    flat, factorized = rmse.values()
    best = min(ours.values())
    report.ratio("ratings: RMSE of the mean of all ratings / best of ours", flat / best, wanted=WANTED_BESIDE_MEAN)
    report.ratio(
        "ratings: RMSE of matrix factorization / best of ours", factorized / best, wanted=WANTED_BESIDE_FACTORS
    )


def _jobs(two: Job) -> dict[str, Job]:
    """The imported job for each model."""
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
    parser.add_argument(
        "--sections", type=sections_of(SECTIONS), default=list(SECTIONS), metavar="SECTION,…", help="clicks, ratings"
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
