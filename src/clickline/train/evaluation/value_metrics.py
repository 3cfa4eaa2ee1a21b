"""How good predicted numbers are: RMSE, MAE and calibration, for labels that are numbers (train.loss: squared).

Exact over the rows they are given, as metrics.py is for clicks: sums are in double precision and in a fixed order.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields

import numpy as np

from clickline.train.evaluation.metrics import Floats


@dataclass(frozen=True)
class ValueMetrics:
    """Figures over some rows; None where the rows do not define it."""

    rows: int
    rmse: float | None = None
    """Root of the mean squared error."""
    mae: float | None = None
    """Mean absolute error."""
    calibration: float | None = None
    """Mean prediction over mean label, where that is above 0."""
    more: dict[str, float] = field(default_factory=dict)
    """Metrics of the user's own."""

    def to_dict(self) -> dict[str, float]:
        """All figures that are defined, by name."""
        named = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "more"}
        return {name: value for name, value in (named | self.more).items() if value is not None}


def measure_values(predicted: Floats, labels: Floats, *, weights: Floats | None = None) -> ValueMetrics:
    """All figures of one label's predictions."""
    rows = len(predicted)
    wanted, given = labels.astype(np.float64), predicted.astype(np.float64)
    weight = np.ones(rows) if weights is None else weights.astype(np.float64)
    total = weight.sum()
    if total == 0:
        return ValueMetrics(rows=rows)
    error = given - wanted
    mean = float((wanted * weight).sum() / total)
    return ValueMetrics(
        rows=rows,
        rmse=float(np.sqrt((error**2 * weight).sum() / total)),
        mae=float((np.abs(error) * weight).sum() / total),
        calibration=float((given * weight).sum() / total) / mean if mean > 0 else None,
    )
