"""Figures by slice: the rows of an evaluation that have one value of a column in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from clickline.train.evaluation.metrics import measure


@dataclass(frozen=True)
class Slice:
    """Figures of the first label over the rows with one value; None where they do not define it."""

    value: str
    rows: int
    auc: float | None
    logloss: float | None
    calibration: float | None
    ctr: float | None


def slices_of(values: Sequence[str], columns: Mapping[str, NDArray[Any]]) -> list[Slice]:
    """A slice for each value, the largest first. `columns` are predictions, in the order of the values."""
    encoded = pa.array(values, pa.large_string()).dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    # One stable sort puts the rows of each value side by side; a mask for each value would scan all rows every time.
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes, minlength=len(encoded.dictionary)))
    logits, labels, weights = columns["logits"][:, 0], columns["labels"][:, 0], columns.get("weights")
    made = []
    for code, value in enumerate(encoded.dictionary.to_pylist()):
        rows = order[ends[code - 1] if code else 0 : ends[code]]
        figures = measure(logits[rows], labels[rows], weights=None if weights is None else weights[rows])
        made.append(Slice(value, len(rows), figures.auc, figures.logloss, figures.calibration, figures.ctr))
    return sorted(made, key=lambda one: (-one.rows, one.value))
