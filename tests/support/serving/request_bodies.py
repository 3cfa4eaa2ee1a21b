"""Rows of logs, and the same rows as requests in every form."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from clickline._native import Parsed
from clickline.config.data import Data
from clickline.config.features import Features
from clickline.data.schema import CATEGORIES, INTEGERS, Schema
from clickline.serve.prediction import PredictionInput, Tensor

Row = dict[str, Any]


def schema_of(format: str = "parquet", **features: Any) -> Schema:
    return Schema.of(Data(format=format), Features.model_validate(features))


def criteo_rows(count: int, seed: int = 0) -> list[Row]:
    """Values as the log has them: texts and integers, None where a field is empty."""
    chance = random.Random(seed)
    rows = []
    for _ in range(count):
        row: Row = {name: chance.choice([None, 0, 1, -1, 3, chance.randrange(10**6)]) for name in INTEGERS}
        row |= {name: chance.choice([None, f"{chance.getrandbits(32):08x}", "abc", "é" * 9]) for name in CATEGORIES}
        rows.append(row)
    return rows


def criteo_text(rows: Sequence[Row]) -> bytes:
    lines = ["\t".join(["0"] + [text_of(row.get(name)) for name in (*INTEGERS, *CATEGORIES)]) for row in rows]
    return "".join(line + "\n" for line in lines).encode()


def text_of(value: Any) -> str:
    return "" if value is None else str(value)


def body_of(rows: Sequence[Row], **more: Any) -> bytes:
    return json.dumps({"instances": rows, **more}).encode()


def packed_texts(values: Sequence[str]) -> bytes:
    encoded = [value.encode() for value in values]
    return b"".join(struct.pack("<I", len(value)) + value for value in encoded)


def text_tensors(rows: Sequence[Row], columns: Sequence[str]) -> list[Tensor]:
    """Every column as packed texts."""
    texts = {name: [text_of(row.get(name)) for row in rows] for name in columns}
    return [Tensor(name, "BYTES", [len(rows)], packed_texts(values)) for name, values in texts.items()]


def infer_body(tensors: Sequence[Tensor], **more: Any) -> tuple[bytes, int]:
    """A request of the binary extension, and the length of its JSON."""
    inputs = [
        {
            "name": t.name,
            "datatype": t.datatype,
            "shape": list(t.shape),
            "parameters": {"binary_data_size": len(t.data)},
        }
        for t in tensors
    ]
    header = json.dumps({"inputs": inputs, **more}).encode()
    return header + b"".join(bytes(tensor.data) for tensor in tensors), len(header)


def assert_same_rows(question: PredictionInput, parsed: Parsed) -> None:
    """What was asked is what training would have read."""
    assert parsed.bad == 0, parsed.errors
    batch = question.batch
    assert len(batch) == parsed.n
    assert batch.labels.tolist() == [[0.0]] * parsed.n
    np.testing.assert_array_equal(batch.keys, parsed.keys)
    np.testing.assert_array_equal(batch.dense, parsed.dense)
    if parsed.offsets is None:
        assert batch.offsets is None
    else:
        np.testing.assert_array_equal(batch.offsets, parsed.offsets)
    features = parsed.missing_slots.sum() + parsed.missing_dense.sum()
    assert (question.missing > 0) == (features > 0)
    assert question.missing <= features  # by column, of which several features may be read
