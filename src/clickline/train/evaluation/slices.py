"""Figures by slice: the rows of an evaluation that have one value of a column in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from clickline.config.training import Loss
from clickline.train.evaluation.metrics import measure
from clickline.train.evaluation.value_metrics import measure_values


@dataclass(frozen=True)
class Slice:
    """Figures of the first label over the rows with one value; None where they do not define it."""

    value: str
    rows: int
    auc: float | None
    logloss: float | None
    calibration: float | None
    ctr: float | None


@dataclass(frozen=True)
class ValueSlice:
    """The same for labels that are numbers."""

    value: str
    rows: int
    rmse: float | None
    mae: float | None
    calibration: float | None


def slices_of(
    values: Sequence[str], columns: Mapping[str, NDArray[Any]], *, loss: Loss = "log"
) -> list[Slice] | list[ValueSlice]:
    """A slice for each value, the largest first. `columns` are predictions, in the order of the values."""
    encoded = pa.array(values, pa.large_string()).dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    # One stable sort puts the rows of each value side by side; a mask for each value would scan all rows every time.
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes, minlength=len(encoded.dictionary)))
    logits, labels, weights = columns["logits"][:, 0], columns["labels"][:, 0], columns.get("weights")
    made, numbers = [], []
    for code, value in enumerate(encoded.dictionary.to_pylist()):
        rows = order[ends[code - 1] if code else 0 : ends[code]]
        part = logits[rows], labels[rows], None if weights is None else weights[rows]
        if loss == "squared":
            errors = measure_values(*part[:2], weights=part[2])
            numbers.append(ValueSlice(value, len(rows), errors.rmse, errors.mae, errors.calibration))
        else:
            figures = measure(*part[:2], weights=part[2])
            made.append(Slice(value, len(rows), figures.auc, figures.logloss, figures.calibration, figures.ctr))
    if loss == "squared":
        return sorted(numbers, key=lambda one: (-one.rows, one.value))
    return sorted(made, key=lambda one: (-one.rows, one.value))
