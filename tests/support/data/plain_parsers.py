"""A second opinion: what rows should become, written the slow and obvious way, to compare the native parsers with."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from clickline._native import Parsed, feature_key
from clickline.config.features import Dense, Slot
from clickline.data.schema import Schema

NUMBER = re.compile(rb" *[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)? *")


class Bad(Exception):
    """The row is bad."""


@dataclass
class Expected:
    labels: list[list[float]] = field(default_factory=list)
    dense: list[list[float]] = field(default_factory=list)
    keys: list[int] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    bad: int = 0


def slowly(schema: Schema, rows: Iterable[Mapping[str, list[bytes]] | None]) -> Expected:
    """Rows as values by column; None stands for a row that could not even be split."""
    out = Expected()
    for row in rows:
        try:
            if row is None:
                raise Bad
            labels = [label(row.get(name, [])) for name in schema.labels]
            dense = [x for one in schema.dense for x in dense_numbers(one, row.get(one.column or one.name, []))]
            keys = [slot_keys(slot, row.get(slot.column or slot.name, []), schema.keys) for slot in schema.slots]
        except Bad:
            out.bad += 1
            continue
        out.labels.append(labels)
        out.dense.append(dense)
        out.keys += [key for several in keys for key in several]
        out.counts += [len(several) for several in keys]
    return out


def number(text: bytes) -> float:
    if not NUMBER.fullmatch(text) or not math.isfinite(float(text)):
        raise Bad
    return float(text)


def label(values: list[bytes]) -> float:
    if len(values) != 1 or number(values[0]) not in (0, 1):
        raise Bad
    return number(values[0])


def dense_numbers(dense: Dense, values: list[bytes]) -> list[float]:
    numbers = [normalised(dense, number(value)) for value in values if value]
    if not numbers:
        return [dense.missing] * dense.size
    with np.errstate(over="ignore"):
        if len(numbers) != dense.size or not np.isfinite(np.array(numbers).astype(np.float32)).all():
            raise Bad
    return numbers


def normalised(dense: Dense, v: float) -> float:
    if dense.normalise == "log1p":
        return math.copysign(math.log1p(abs(v)), v)
    if dense.normalise == "criteo":
        return v if v <= 2 else math.log(v) ** 2
    if dense.normalise in ("standard", "minmax"):
        assert dense.center is not None
        assert dense.spread is not None
        return (v - dense.center) / dense.spread
    return v


def slot_keys(slot: Slot, values: list[bytes], keys: str) -> list[int]:
    if slot.separator:
        values = [part for value in values for part in value.split(slot.separator.encode())]
    found = [slot_key(slot, value, keys) for value in values if value]
    if not found:
        return [0 if keys == "raw" else feature_key(slot.name, b"")]
    return found[-slot.max_values :] if slot.pooling == "sequence" else found[: slot.max_values]


def slot_key(slot: Slot, value: bytes, keys: str) -> int:
    if keys == "raw":
        if not re.fullmatch(rb"\d+", value) or int(value) >= 2**64:
            raise Bad
        return int(value)
    if slot.bucket == "log":
        v = number(value)
        bucket = math.frexp(v)[1] + 1 if v > 2 else math.floor(v)
        if bucket < -9e18:
            raise Bad
        return feature_key(slot.name, str(bucket).encode())
    return feature_key(slot.name, value)


def assert_same(parsed: Parsed, expected: Expected, schema: Schema) -> None:
    assert (parsed.n, parsed.bad) == (len(expected.labels), expected.bad), parsed.errors
    assert parsed.labels.tolist() == expected.labels
    assert parsed.keys.tolist() == expected.keys
    shape = (parsed.n, schema.dense_width)
    np.testing.assert_allclose(parsed.dense, np.array(expected.dense, np.float32).reshape(shape), rtol=3e-7, atol=1e-30)
    if all(count == 1 for count in expected.counts):
        assert parsed.offsets is None
    else:
        assert parsed.offsets is not None
        assert parsed.offsets.tolist() == np.cumsum([0, *expected.counts]).tolist()
