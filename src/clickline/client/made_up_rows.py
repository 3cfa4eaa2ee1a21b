"""Made-up rows for the inputs of a model, to try it out or to measure it where no log is at hand.

Values are drawn from a small set, so that lookups are neither always of the same key nor always of a new one. Most are
values that training never saw: good for measuring, meaningless as predictions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from clickline.client.request_rows import Row
from clickline.net.predictor_documents import ModelMetadata, TensorMetadata

_VALUES = 1000


def columns(metadata: ModelMetadata) -> list[str]:
    """Names of a model's inputs."""
    return [tensor["name"] for tensor in metadata["inputs"]]


def sample_rows(metadata: ModelMetadata, count: int, *, seed: int = 0) -> list[Row]:
    """`count` rows with a value for every input: digits as text for categories, numbers for numbers."""
    random = np.random.default_rng(seed)
    values = {tensor["name"]: _values(tensor, count, random) for tensor in metadata["inputs"]}
    return [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]


def _values(tensor: TensorMetadata, count: int, random: np.random.Generator) -> list[Any]:
    width = tensor["shape"][1] if len(tensor["shape"]) > 1 else 1
    if tensor["datatype"] != "BYTES":
        numbers = random.integers(0, 100, (count, max(width, 1))).tolist()
        return numbers if width > 1 else [row[0] for row in numbers]
    drawn = [str(value) for value in random.integers(1, _VALUES + 1, count)]  # digits are raw keys as well as text
    return drawn if width == 1 else [[value, str(int(value) + 1)] for value in drawn]
