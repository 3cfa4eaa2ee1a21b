"""Section memory: what a row of a table takes, and that a longer log takes no more memory than a short one."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from clickline.config.data import Data
from datasets import Rows
from peers import output_of, run_own, scratch
from rounds import Report, console
from training import THREADS

TABLE_ROWS, DIM, OPTIMIZER, TIMES = 10_000_000, 16, "adagrad", 10


def run(report: Report, rows: Rows, *, table_rows: int = TABLE_ROWS) -> None:
    command = [sys.executable, "-m", "clickline", "capacity", "--json"]
    command += ["--rows", str(table_rows), "--dim", str(DIM), "--optimizer", OPTIMIZER]
    facts = json.loads(output_of(command))
    console.print(f"  {table_rows:,} rows: {facts['bytes_per_row']} bytes each", highlight=False)
    report.figure("table, bytes per row", facts["bytes_per_row"], unit="bytes")
    report.figure("table, payload per row", facts["payload_bytes_per_row"], unit="bytes")
    report.ratio("payload/bytes", facts["payload_bytes_per_row"] / facts["bytes_per_row"], wanted=0.8)
    shuffled = min(Data().shuffle_rows, rows.train_rows)
    peaks = [_peak(rows.train, shuffled=shuffled, times=times) for times in (1, TIMES)]
    for times, peak in zip((1, TIMES), peaks, strict=True):
        console.print(f"  lr from {times} × {shuffled:,} rows: {peak:.0f} MiB", highlight=False)
        report.figure(f"lr, peak memory, log of {times} × the shuffle buffer", round(peak, 1), unit="MiB")
    report.ratio("RSS 1x/10x", peaks[0] / peaks[1], wanted=0.9)


def _peak(source: Path, *, shuffled: int, times: int) -> float:
    """Peak resident memory of a training process, in MiB.

    The longer log is the shorter one over and over: the same keys, so that tables are equally large.
    """
    with source.open("rb") as file:
        lines = b"".join(file.readline() for _ in range(shuffled))
    with scratch() as directory:
        log = directory / "log.tsv"
        with log.open("wb") as file:
            for _ in range(times):
                file.write(lines)
        job = {
            "output": str(directory),
            "threads": THREADS,
            "data": {"format": "criteo", "train": [str(log)], "shuffle_rows": shuffled},
            "model": {"name": "lr"},
        }
        return float(run_own("peak", json.dumps(job))["peak_mib"])
