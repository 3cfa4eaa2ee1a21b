"""Calibration in bins: how predictions of about the same height compare with the clicks that came of them.

Bins hold about equally many rows rather than equally wide ranges of probability: predictions of clicks crowd near
zero, where one of ten equally wide bins would have nearly all rows. Rows with the same prediction share a bin, so the
order of rows does not matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class CalibrationBin:
    """Rows whose predictions are next to each other."""

    rows: int
    weight: float
    low: float
    """The lowest prediction."""
    high: float
    """The highest prediction."""
    predicted: float
    """Mean prediction."""
    observed: float
    """Mean label."""


def calibration_bins(
    probabilities: NDArray[np.float64],
    labels: NDArray[np.float64],
    weights: NDArray[np.float64],
    *,
    bins: int,
    order: NDArray[np.intp] | None = None,
) -> list[CalibrationBin]:
    """Bins of the rows from the lowest prediction to the highest. `order` sorts the predictions, if known already."""
    order = np.argsort(probabilities, kind="stable") if order is None else order
    ranked, label, weight = probabilities[order], labels[order], weights[order]
    rows = len(ranked)
    if rows == 0:
        return []
    starts = np.flatnonzero(np.append(True, ranked[1:] != ranked[:-1]))
    ends = np.append(starts[1:], rows)
    # The middle of each run of equal predictions decides on the bin of all its rows.
    number = np.minimum(((starts + ends) / 2 * bins / rows).astype(np.int64), bins - 1)
    cuts = [int(start) for start in starts[np.flatnonzero(np.append(True, number[1:] != number[:-1]))]]
    made = []
    for first, last in pairwise([*cuts, rows]):
        part = slice(first, last)
        total = float(weight[part].sum())
        if total > 0:
            made.append(
                CalibrationBin(
                    rows=last - first,
                    weight=total,
                    low=float(ranked[first]),
                    high=float(ranked[last - 1]),
                    predicted=float((ranked[part] * weight[part]).sum() / total),
                    observed=float((label[part] * weight[part]).sum() / total),
                )
            )
    return made


def expected_calibration_error(bins: Sequence[CalibrationBin]) -> float | None:
    """Mean distance between prediction and outcome over bins, by their weight; None without rows."""
    total = sum(one.weight for one in bins)
    if total == 0:
        return None
    return sum(abs(one.predicted - one.observed) * one.weight for one in bins) / total
