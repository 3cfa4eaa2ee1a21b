"""Section deep: our dnn and deepfm beside FuxiCTR's, from raw text through one epoch.

Both have 39 fields × 10 dimensions → 400 → 400 → 400 → 1, batch 4096, two threads, and start from nothing in every
round. FuxiCTR must read and encode the whole text before it can train, which counts; its training alone is a figure
beside it. Rows stay in its memory in between and rare values share one row, both of which make it faster than it is
as it comes.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path

from clickline import Job
from datasets import Rows
from peers import run_peer, scratch
from rounds import Report, alternate
from training import DIM, HIDDEN, THREADS, from_text

BATCH = 4096
MODELS = ("dnn", "deepfm")


def run(report: Report, rows: Rows, *, rounds: int) -> None:
    alone: dict[str, list[float]] = {model: [] for model in MODELS}
    contenders: dict[str, Callable[[], float]] = {}
    for model in MODELS:
        contenders[f"{model} from text"] = _ours(model, rows.train)
        contenders[f"FuxiCTR {model} from text"] = _fuxictr(model, rows.train, alone[model])
    report.figures |= alternate(contenders, rounds=rounds, unit="rows/s")
    for model in MODELS:
        seen = [round(figure, 1) for figure in alone[model]]
        name = f"FuxiCTR {model}, training alone"
        report.figures[name] = {"median": statistics.median(seen), "rounds": seen, "unit": "rows/s"}
        ratio = report.median(f"{model} from text") / report.median(f"FuxiCTR {model} from text")
        report.ratio(f"{model}/FuxiCTR", ratio, wanted=2.0)


def _ours(model: str, train: Path) -> Callable[[], float]:
    job = Job.model_validate(
        {
            "threads": THREADS,
            "data": {"format": "criteo", "train": [str(train)]},
            "features": {"integers": "slots"},
            "model": {"name": model, "embedding_dim": DIM, "hidden": [HIDDEN] * 3},
            "train": {"batch_size": BATCH},
        }
    )
    return lambda: from_text(job)


def _fuxictr(model: str, train: Path, alone: list[float]) -> Callable[[], float]:
    def figure() -> float:
        with scratch() as directory:
            facts = run_peer("fuxi_layers", model, train, directory / "fuxictr", THREADS, threads=THREADS)
        alone.append(facts["rows"] / facts["training"])
        return float(facts["rows"] / (facts["encoding"] + facts["training"]))

    return figure
