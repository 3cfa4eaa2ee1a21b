"""Rows made up from what a model says of its inputs, for trying it out and for load where no log is at hand.

Their values are drawn from few, so that looking them up is neither always the same row nor always a new one. Most are
values that training never saw: good for measuring, meaningless as predictions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

_VALUES = 1000


def columns(metadata: Mapping[str, Any]) -> list[str]:
    """Names of a model's inputs."""
    return [one["name"] for one in metadata["inputs"]]


def sample_rows(metadata: Mapping[str, Any], count: int, *, seed: int = 0) -> list[dict[str, Any]]:
    """So many rows with a value for every input: digits as text for categories, numbers for numbers."""
    random = np.random.default_rng(seed)
    made = {one["name"]: _values(one, count, random) for one in metadata["inputs"]}
    return [dict(zip(made, row, strict=True)) for row in zip(*made.values(), strict=True)]


def _values(described: Mapping[str, Any], count: int, random: np.random.Generator) -> list[Any]:
    width = described["shape"][1] if len(described["shape"]) > 1 else 1
    if described["datatype"] != "BYTES":
        numbers = random.integers(0, 100, (count, max(width, 1))).tolist()
        return numbers if width > 1 else [row[0] for row in numbers]
    drawn = [str(value) for value in random.integers(1, _VALUES + 1, count)]  # digits are raw keys as well as text
    return drawn if width == 1 else [[value, str(int(value) + 1)] for value in drawn]
