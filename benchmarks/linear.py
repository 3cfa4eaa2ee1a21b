"""Section lr: our logistic regression beside Vowpal Wabbit's, one pass.

Speed is measured on synthetic rows, from nothing: an empty table and zero weights in every round. Vowpal Wabbit
learns from text in its own format, prepared beforehand, and from raw Criteo text, converted first by a short Python
program, which was faster than handing it row after row. AUC is compared on the real rows. Our batch is 4096 for both,
not the default 1024, with which lr is slower and a little better: PyTorch's cost of a step counts for a model so small.
"""

from __future__ import annotations

from pathlib import Path

from clickline import Job, train_job
from datasets import ABSENT, Rows
from peers import BENCH, run_peer, scratch
from rounds import Report, alternate, console
from training import THREADS, from_text

OPTIONS = ("--ftrl", "--ftrl_alpha", "0.085")
"""Vowpal Wabbit's best settings on the Criteo sample among its update rules and a grid of rates."""
NO_MODEL = "-"
BATCH = 4096


def run(report: Report, rows: Rows, *, rounds: int, real: Rows | None) -> None:
    with scratch() as directory:
        prepared = directory / "prepared.vw"
        console.print("  preparing Vowpal Wabbit's text")
        run_peer("vowpal", "prepare", rows.train, prepared)
        contenders = {
            "lr": lambda: from_text(_job(rows.train)),
            "VW prepared": lambda: rows.train_rows / _seconds("prepared", prepared, NO_MODEL),
            "VW raw": lambda: rows.train_rows / _seconds("raw", rows.train, directory / "raw"),
        }
        report.figures |= alternate(contenders, rounds=rounds, unit="rows/s")
    report.ratio("lr/VW prepared", report.median("lr") / report.median("VW prepared"), wanted=2.0)
    report.ratio("lr/VW raw", report.median("lr") / report.median("VW raw"), wanted=5.0)
    if real is None:
        console.print(f"  AUC skipped: {ABSENT}", highlight=False)
        return
    with scratch() as directory:
        auc = train_job(_job(real.train, test=real.test, output=directory)).test["auc"]
    peers = {numbers: vowpal(real, OPTIONS, numbers=numbers)["auc"] for numbers in (False, True)}
    report.figure("lr AUC", auc, unit="AUC")
    report.figure("VW AUC", peers[False], unit="AUC")
    report.figure("VW AUC, integers also as numbers", peers[True], unit="AUC")
    report.ratio("lr AUC/VW AUC", auc / max(peers.values()), wanted=1.0)


def vowpal(rows: Rows, options: tuple[str, ...], *, numbers: bool) -> dict[str, float]:
    """AUC and logloss of Vowpal Wabbit with these options."""
    with scratch() as directory:
        train, test, model = (directory / name for name in ("train.vw", "test.vw", "model"))
        for raw, text in ((rows.train, train), (rows.test, test)):
            run_peer("vowpal", "prepare", raw, text, *(["numbers"] if numbers else []))
        run_peer("vowpal", "prepared", train, model, *options)
        return run_peer("vowpal", "score", test, model)


def _seconds(verb: str, *arguments: object) -> float:
    return float(run_peer("vowpal", verb, *arguments, *OPTIONS)["seconds"])


def _job(train: Path, *, test: Path | None = None, output: Path = BENCH) -> Job:
    return Job.model_validate(
        {
            "name": "bench-lr",
            "output": str(output),
            "threads": THREADS,
            "data": {"format": "criteo", "train": [str(train)], "test": [str(test)] if test else []},
            "model": {"name": "lr"},
            "train": {"batch_size": BATCH},
        }
    )
