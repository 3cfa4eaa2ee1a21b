"""Quality: AUC of every model of the zoo on real rows, with the settings a user gets who names only data and model.

The Criteo sample's first 80 % in time train, the last 20 % test; three seeds. Beside our models: Vowpal Wabbit and a
tuned hashed logistic regression, run here on the same rows, and figures measured elsewhere on the same rows.
--synthetic adds synthetic rows, of which the best possible AUC is known.

What is done is kept in .bench/quality.json until the code changes, so that an interrupted run goes on where it was.
Results: benchmarks/results/quality.json and quality.md.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.table import Table

import clickline
from clickline import Job, train_job
from clickline.models.registry import model_names
from datasets import ABSENT, Rows, criteo_path, real, synthetic
from linear import OPTIONS, vowpal
from peers import BENCH, run_peer, scratch
from rounds import Report, console, sections_of
from sections import guarded, parser_for

KEPT = BENCH / "quality.json"
NOT_HERE = ("din", "mmoe")
"""Models that want a history, or several labels."""
NAMESAKES = {"dnn": 0.7558, "deepfm": 0.7571, "dcn_v2": 0.7559, "finalmlp": 0.7561}
"""FuxiCTR's AUC, measured elsewhere on the same rows."""
ELSEWHERE = {
    **{f"FuxiCTR {name}": auc for name, auc in NAMESAKES.items()},
    "Vowpal Wabbit lr": 0.7561,
    "Vowpal Wabbit quadratic": 0.7580,
    "hashed lr, tuned": 0.7593,
}
WANTED_LR, WANTED_BEST, WANTED_GAP = 0.7593, 0.762, 0.005
SYNTHETIC_ROWS, SYNTHETIC_MODELS = 1_000_000, ("lr", "wide_deep", "dnn", "deepfm")
"""Those that are quick; the others take up to half an hour for so many rows."""


def main() -> None:
    arguments = _arguments()
    path = criteo_path(arguments.criteo)
    if path is None:
        sys.exit(ABSENT)
    kept = Kept(again=arguments.again)
    rows = real(path)
    report = Report("quality" if arguments.models == zoo() else "-".join(["quality", *arguments.models]))
    ours = {model: trained(model, rows, arguments.seeds, kept) for model in arguments.models}
    for model, scores in ours.items():
        auc = scores["auc"]
        report.figures[model] = {"median": statistics.median(auc), "rounds": auc, "unit": "test AUC"}
        report.figure(f"{model}, mean", statistics.mean(auc), unit="test AUC")
        if len(auc) > 1:
            report.figure(f"{model}, sd", statistics.stdev(auc), unit="test AUC")
        report.figure(f"{model}, logloss", statistics.mean(scores["logloss"]), unit="logloss")
    others = {} if arguments.no_peers else peers(rows, kept)
    for name, peer in others.items():
        report.figure(f"{name}, run here", peer["auc"], unit="test AUC")
    for name, known in ELSEWHERE.items():
        report.figure(f"{name}, measured elsewhere on the same rows", known, unit="test AUC")
    _show(ours, others)
    means = {model: statistics.mean(scores["auc"]) for model, scores in ours.items()}
    for model, known in NAMESAKES.items():
        if model in means:
            report.ratio(f"{model} AUC", means[model], wanted=known)
    if "lr" in means:
        report.ratio("lr AUC", means["lr"], wanted=WANTED_LR)
    report.ratio("best AUC", max(means.values()), wanted=WANTED_BEST)
    if arguments.synthetic:
        quick = [model for model in arguments.models if model in SYNTHETIC_MODELS]
        _synthetic(report, quick or arguments.models, arguments.seeds[:1], kept)
    report.finish()


def zoo() -> list[str]:
    return [name for name in model_names() if name not in NOT_HERE]


class Kept:
    """Scores by what was asked for and of which code, written after each."""

    def __init__(self, *, again: bool) -> None:
        self._scores: dict[str, Any] = {} if again else _read_kept()
        here = Path(__file__).parent
        self._code = {"ours": fingerprint(Path(clickline.__file__).parent), "peer": fingerprint(here / "peers")}

    def scores(self, asked: dict[str, Any], measure: Callable[[], dict[str, float]]) -> tuple[dict[str, float], bool]:
        """What was kept, or else what `measure` gives; and whether it was kept."""
        code = self._code["peer" if "peer" in asked else "ours"]
        name = json.dumps({**asked, "code": code}, sort_keys=True)
        if name in self._scores:
            return self._scores[name], True
        scores = measure()
        self._scores = _read_kept() | self._scores | {name: scores}  # another run may have added its own meanwhile
        KEPT.parent.mkdir(parents=True, exist_ok=True)
        aside = KEPT.with_suffix(f".{os.getpid()}")
        aside.write_text(json.dumps(self._scores, indent=1) + "\n", encoding="utf-8")
        aside.replace(KEPT)
        return scores, False


def _read_kept() -> dict[str, Any]:
    scores: dict[str, Any] = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
    return scores


def fingerprint(directory: Path) -> str:
    """Of the Python files and the native core below a directory."""
    digest = hashlib.sha256()
    for file in sorted([*directory.rglob("*.py"), *directory.rglob("*.so")]):
        digest.update(file.relative_to(directory).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:16]


def trained(model: str, rows: Rows, seeds: list[int], kept: Kept) -> dict[str, list[float]]:
    """Test AUC and logloss of each seed."""
    job = Job.model_validate(
        {
            "name": f"quality-{model}",
            "data": {"train": [str(rows.train)], "test": [str(rows.test)]},
            "model": {"name": model},
        }
    )
    return scored(model, job, seeds, kept, rows=rows.train_rows)


def scored(
    title: str, job: Job, seeds: list[int], kept: Kept, *, rows: int = 0, names: Sequence[str] = ("auc", "logloss")
) -> dict[str, list[float]]:
    """Those of the named test figures that a job has, for each seed."""
    scores: dict[str, list[float]] = {}
    for seed in seeds:
        seeded = job.model_copy(update={"seed": seed})
        found, old = kept.scores({"job": seeded.model_dump(mode="json"), "rows": rows}, partial(_score, seeded))
        took = "kept from before" if old else f"{found['seconds']:.0f} s"
        file = Path(job.data.train[0]).name
        figure = f"RMSE {found['rmse']:.4f}" if "rmse" in found else f"AUC {found['auc']:.4f}"
        console.print(f"  {file}  {title}, seed {seed}: {figure}  ({took})", highlight=False)
        for name in names:
            if name in found:
                scores.setdefault(name, []).append(found[name])
    return scores


def _score(job: Job) -> dict[str, float]:
    with scratch() as directory:
        result = train_job(job.model_copy(update={"output": str(directory)}))
    return {**result.test, "seconds": result.seconds}


def peers(rows: Rows, kept: Kept) -> dict[str, dict[str, float]]:
    """Peers that are cheap enough to run here. Vowpal Wabbit's rates were chosen for these rows."""
    contenders: dict[str, Callable[[], dict[str, float]]] = {
        "Vowpal Wabbit lr": lambda: vowpal(rows, OPTIONS, numbers=False),
        "Vowpal Wabbit lr, integers also as numbers": lambda: vowpal(rows, OPTIONS, numbers=True),
        "Vowpal Wabbit quadratic": lambda: vowpal(rows, ("-q", "::", "-l", "0.1"), numbers=False),
        "hashed lr, tuned": lambda: run_peer("hashed_lr", rows.train, rows.test),
    }
    scores = {}
    for name, run in contenders.items():
        found, _ = kept.scores({"peer": name, "rows": rows.train_rows}, run)
        console.print(f"  {name}: AUC {found['auc']:.4f}", highlight=False)
        scores[name] = found
    return scores


def _synthetic(report: Report, models: list[str], seeds: list[int], kept: Kept) -> None:
    rows = synthetic(SYNTHETIC_ROWS)
    if rows.best_auc is None:
        raise ValueError(f"{rows.test}: the synthetic rows come without their best AUC")
    found = {model: statistics.mean(trained(model, rows, seeds, kept)["auc"]) for model in models}
    for model, auc in found.items():
        report.figure(f"{model}, synthetic", auc, unit="test AUC")
    report.figure("best possible, synthetic", rows.best_auc, unit="test AUC")
    report.ratio("synthetic: best of ours - best possible", max(found.values()) - rows.best_auc, wanted=-WANTED_GAP)


def _show(ours: dict[str, dict[str, list[float]]], others: dict[str, dict[str, float]]) -> None:
    table = Table("model", "AUC", "sd", "logloss", "namesake")
    for model, scores in sorted(ours.items(), key=lambda item: -statistics.mean(item[1]["auc"])):
        spread = f"{statistics.stdev(scores['auc']):.4f}" if len(scores["auc"]) > 1 else ""
        means = [f"{statistics.mean(scores[name]):.4f}" for name in ("auc", "logloss")]
        table.add_row(model, means[0], spread, means[1], str(NAMESAKES.get(model, "")))
    table.add_section()
    for name, peer in others.items():
        table.add_row(name, f"{peer['auc']:.4f}", "", f"{peer['logloss']:.4f}", "")
    table.add_section()
    for name, auc in ELSEWHERE.items():
        table.add_row(f"{name} *", f"{auc:.4f}", "", "", "")
    console.print(table)
    console.print("namesake: FuxiCTR's model of that name.  * measured elsewhere on the same rows", highlight=False)


def _arguments() -> argparse.Namespace:
    parser = parser_for(
        __doc__, example="python benchmarks/quality.py --criteo criteo.tsv.zst --models lr,deepfm --seeds 1,2,3"
    )
    parser.add_argument("--criteo", metavar="PATH", help="Criteo sample, .tsv or .tsv.zst (default: $CLICKLINE_CRITEO)")
    parser.add_argument(
        "--models", type=sections_of(tuple(zoo())), default=zoo(), metavar="MODEL,…", help=f"of {', '.join(zoo())}"
    )
    parser.add_argument("--seeds", type=seeds, default=[1, 2, 3], metavar="N,…", help="default 1,2,3")
    parser.add_argument("--synthetic", action="store_true", help="also train on synthetic rows, with the first seed")
    parser.add_argument("--no-peers", action="store_true", help="do not run Vowpal Wabbit and the hashed regression")
    parser.add_argument("--again", action="store_true", help="forget what an earlier run has kept")
    return parser.parse_args()


def seeds(text: str) -> list[int]:
    """A type for argparse: whole numbers separated by commas."""
    if not all(part.isdigit() for part in text.split(",")):
        raise argparse.ArgumentTypeError(f"{text!r} should be whole numbers separated by commas, such as 1,2,3")
    return [int(part) for part in text.split(",")]


if __name__ == "__main__":
    guarded(main)
