"""A reader whose files can hold orders: wait here until a file appears, or die. So the moment of a fault is exact."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from clickline.data.sources.custom_reader import Reader

SLOTS = 4
FORMAT = f"{Path(__file__)}:Gated"


class Gated(Reader):
    """Lines are a label and values of slots, or orders.

    `WAIT name` waits for a file beside this one, or at a path, `SLEEP seconds` sleeps, `DIE` kills the process, `RAISE`
    fails.
    """

    def tables(self, stream, path) -> Iterator[pa.RecordBatch]:
        trains = "trainer" in (os.environ.get("CLICKLINE_ROLE"), *sys.argv[1:2])
        rows: list[list[str]] = []
        for line in stream.read().decode().splitlines():
            if line[0] in "WDRS" and rows:
                yield _batch(rows)
                rows = []
            if line.startswith("WAIT") and trains:
                while not (Path(path).parent / line.split()[1]).exists():
                    time.sleep(0.01)
            elif line.startswith("SLEEP") and trains:
                time.sleep(float(line.split()[1]))
            elif line == "DIE" and trains:
                os.kill(os.getpid(), signal.SIGKILL)
            elif line == "RAISE" and trains:
                raise RuntimeError("this log is torn")
            elif line[0] not in "WDRS":
                rows.append(line.split(","))
        if rows:
            yield _batch(rows)


def _batch(rows: list[list[str]]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True))
    names = ["label", *(f"s{slot}" for slot in range(SLOTS))]
    return pa.RecordBatch.from_pydict({name: list(column) for name, column in zip(names, columns, strict=True)})


def write_gated(directory: Path, *, files: int, rows: int, orders: dict[int, tuple[int, str]], seed: int = 1) -> str:
    """Files of equally many rows; orders by file: after so many rows, what. Returns the pattern that names them."""
    import numpy as np

    directory.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    for number in range(files):
        values = rng.zipf(1.3, (rows, SLOTS)).clip(max=500)
        labels = (rng.random(rows) < 0.1 + 0.6 * (values[:, 0] % 3 == 0)).astype(int)
        lines = [",".join(map(str, (label, *row))) for label, row in zip(labels, values, strict=True)]
        if number in orders:
            lines.insert(*orders[number])
        (directory / f"part-{number:02d}.log").write_text("\n".join(lines) + "\n")
    return str(directory / "part-*.log")


def gated_settings(settings: dict, pattern: str) -> dict:
    """The settings of a job, on such data."""
    settings["data"] = {"format": FORMAT, "train": [pattern], "shuffle_rows": 50, "threads": 1}
    settings["features"] = {"labels": ["label"], "slots": [f"s{slot}" for slot in range(SLOTS)], "dense": []}
    return settings
