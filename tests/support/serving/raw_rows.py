"""Log lines as people would ask about them, and what the trainer says of the same lines."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clickline.data.batch import Batch
from clickline.data.schema import CATEGORIES, INTEGERS, Schema
from clickline.publish.checkpoint_source import open_checkpoint_source
from clickline.serve.prediction import PredictionInput, PredictionResult
from clickline.serve.predictor.model_version import ModelVersion
from clickline.serve.predictor.predictor import Predictor
from clickline.train.evaluation.metrics import sigmoid

Rows = list[dict[str, Any]]


def criteo_rows(path: str, count: int) -> tuple[Rows, bytes]:
    """The first lines of a Criteo log: by column, without what is missing and without the label; and as they are."""
    lines = Path(path).read_bytes().splitlines(keepends=True)[:count]
    rows = []
    for line in lines:
        values = line.decode().rstrip("\n").split("\t")[1:]
        named = dict(zip((*INTEGERS, *CATEGORIES), values, strict=True))
        rows.append({name: int(v) if name in INTEGERS else v for name, v in named.items() if v})
    return rows, b"".join(lines)


def csv_rows(path: str, count: int) -> tuple[Rows, bytes, list[str]]:
    """The same of a CSV with a header, and its columns. Several values of a column come as a list."""
    header, *lines = Path(path).read_bytes().splitlines(keepends=True)[: count + 1]
    columns = header.decode().strip().split(",")
    rows: Rows = []
    for values in csv.reader(line.decode() for line in lines):
        row: dict[str, Any] = dict(zip(columns, values, strict=True))
        row |= {name: row[name].split("|") if row[name] else [] for name in ("genres", "seen")}
        rows.append({name: v for name, v in row.items() if name not in ("label", "finish", "time")})
    return rows, b"".join(lines), columns


def trained_on(checkpoint: Path, text: bytes, *, columns: list[str] | None = None) -> NDArray[np.float32]:
    """What the trainer's own model predicts for lines of text, read as it reads them."""
    learner = open_checkpoint_source(checkpoint, threads=1).learner
    parsed = learner.schema.parser(columns=columns or ()).parse(text)
    assert parsed.bad == 0, parsed.errors
    batch = Batch(labels=parsed.labels, dense=parsed.dense, keys=parsed.keys, offsets=parsed.offsets)
    return sigmoid(learner.predict(batch)).astype(np.float32).reshape(len(batch), -1)


def question(loaded: ModelVersion, rows: Rows) -> PredictionInput:
    return loaded.reader.from_json(json.dumps({"instances": rows}).encode(), most_rows=4096)


def ask(predictor: Predictor, rows: Rows, model: str | None = None, **options: Any) -> PredictionResult:
    """The way of a request."""
    chosen = predictor.choose(model, **options)
    return predictor.ask(chosen, question(chosen.model_version, rows), timeout=30)


def assert_close(seen: NDArray[np.float32], wanted: NDArray[np.float32]) -> None:
    np.testing.assert_allclose(seen, wanted, rtol=0, atol=1e-5)


class Recorded:
    """Counts by name and label."""

    def __init__(self) -> None:
        self.counted: dict[tuple[str, str], float] = {}
        self.observed: dict[tuple[str, str], list[float]] = {}
        self.gauges: dict[tuple[str, str], float] = {}

    def count(self, name: str, value: float = 1.0, label: str = "") -> None:
        self.counted[name, label] = self.counted.get((name, label), 0.0) + value

    def observe(self, name: str, seconds: float, label: str = "") -> None:
        self.observed.setdefault((name, label), []).append(seconds)

    def observe_all(self, name: str, values: NDArray[np.float32], label: str = "") -> None:
        self.observed.setdefault((name, label), []).extend(map(float, values))

    def gauge(self, name: str, value: float, label: str = "") -> None:
        self.gauges[name, label] = value


def columns_of(schema: Schema) -> set[str]:
    return {slot.column or slot.name for slot in schema.slots} | {one.column or one.name for one in schema.dense}
