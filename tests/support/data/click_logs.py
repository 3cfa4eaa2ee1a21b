"""Small click logs in every format, all from one seed, and how to read them in a test."""

from __future__ import annotations

import gzip
import random
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from clickline.config.data import Data
from clickline.config.features import Features
from clickline.data.batch import Batch
from clickline.data.dataset import Dataset
from clickline.data.position import Position
from clickline.data.schema import Schema

COLUMNS = Features.model_validate({"slots": ["user", {"name": "tags", "separator": ";"}], "dense": ["price"]})

READER = """
from clickline import Reader

class Pipes(Reader):
    def __init__(self, *, separator="|", fail_at=None):
        self.separator = separator
        self.fail_at = fail_at

    def rows(self, stream, path):
        for number, line in enumerate(stream):
            if number == self.fail_at:
                raise RuntimeError("reader broke")
            label, user, tags, price = line.decode().rstrip("\\n").split(self.separator)
            yield {"label": label, "user": user, "tags": tags.split(";"), "price": price or None}
"""


def criteo(rows: int, *, seed: int = 1, first: int = 0) -> bytes:
    """The first integer is the row's number."""
    rng = random.Random(seed)
    lines = []
    for row in range(first, first + rows):
        numbers = [str(row), *("" if rng.random() < 0.2 else str(rng.randrange(100)) for _ in range(12))]
        categories = ["" if rng.random() < 0.1 else f"{rng.randrange(1000):08x}" for _ in range(26)]
        lines.append("\t".join([str(rng.randrange(2)), *numbers, *categories]) + "\n")
    return "".join(lines).encode()


def records(rows: int, *, seed: int = 1) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    return [
        {
            "label": rng.randrange(2),
            "user": f"u{row}",
            "tags": [f"t{rng.randrange(9)}" for _ in range(rng.randrange(1, 4))],
            "price": None if rng.random() < 0.2 else float(row),
        }
        for row in range(rows)
    ]


def _separated(rows: Iterable[dict[str, Any]], separator: str) -> str:
    cells = (
        (str(row["label"]), row["user"], ";".join(row["tags"]), "" if row["price"] is None else str(row["price"]))
        for row in rows
    )
    return "".join(separator.join(cell) + "\n" for cell in cells)


def write(directory: Path, kind: str, rows: int, *, seed: int = 1) -> Path:
    """A log of that kind: criteo, gz, csv, parquet or custom."""
    path = directory / f"{kind}-{rows}-{seed}"
    if kind == "criteo":
        path.write_bytes(criteo(rows, seed=seed))
    elif kind == "gz":
        path.write_bytes(gzip.compress(criteo(rows, seed=seed)))
    elif kind == "csv":
        path.write_text("label,user,tags,price\n" + _separated(records(rows, seed=seed), ","))
    elif kind == "parquet":
        pq.write_table(pa.Table.from_pylist(records(rows, seed=seed)), path, row_group_size=50)
    else:
        path.write_text(_separated(records(rows, seed=seed), "|"))
        (directory / "pipes.py").write_text(READER)
    return path


def setting(kind: str, directory: Path, **more: Any) -> tuple[Data, Features]:
    formats = {"gz": "criteo", "custom": f"{directory}/pipes.py:Pipes"}
    features = Features() if kind in ("criteo", "gz") else COLUMNS
    return Data(format=formats.get(kind, kind), **more), features


def dataset(
    paths: Iterable[Path | str],
    kind: str,
    directory: Path,
    *,
    batch_size: int = 16,
    seed: int = 7,
    shuffle: bool = True,
    **more: Any,
) -> Dataset:
    data, features = setting(kind, directory, **more)
    return Dataset(
        data=data,
        schema=Schema.of(data, features),
        paths=[str(path) for path in paths],
        batch_size=batch_size,
        seed=seed,
        shuffle=shuffle,
    )


def taken(data: Dataset, *, epoch: int = 0, start: Position | None = None) -> list[tuple[Batch, Position]]:
    return list(data.batches(epoch=epoch, start=start))


def plain(batches: Iterable[tuple[Batch, Position]]) -> list[dict[str, Any]]:
    """Batches as values that can be compared, bit for bit."""
    return [{item.name: _bits(getattr(batch, item.name)) for item in fields(Batch)} for batch, _ in batches]


def _bits(array: np.ndarray[Any, Any] | None) -> tuple[Any, ...] | None:
    return None if array is None else (array.shape, array.dtype.str, array.tobytes())
