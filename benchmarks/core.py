"""Section core: D, P, C and T of training.py, taking turns."""

from __future__ import annotations

from datasets import Rows
from rounds import Report, alternate, console
from training import clickline_from_memory, clickline_from_text, job_for, limit, memory_batches, plain_pytorch


def run(report: Report, rows: Rows, *, rounds: int) -> None:
    job = job_for(rows.train)
    batches = memory_batches(job)
    plain, ids = plain_pytorch(batches)
    contenders = {
        "D": limit(batches),
        "P": plain,
        "C": clickline_from_memory(job, batches),
        "T": clickline_from_text(job),
    }
    report.figure("distinct ids", ids, unit="ids")
    console.print("  warming up: one round that does not count")
    for name, contender in contenders.items():
        figure = contender()
        if name == "C":  # every row is new
            report.figure("C first pass", round(figure, 1), unit="rows/s")
    report.figures |= alternate(contenders, rounds=rounds, unit="rows/s")
    report.ratio("C/D", report.median("C") / report.median("D"), wanted=0.85)
    report.ratio("C/P", report.median("C") / report.median("P"), wanted=1.2)
    report.ratio("T/C", report.median("T") / report.median("C"), wanted=0.95)
