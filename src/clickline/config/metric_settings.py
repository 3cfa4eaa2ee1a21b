"""Which figures are measured beside the usual ones, and how."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from clickline.config.section import Section

LARGER_IS_BETTER = ("auc", "gauc", "precision", "recall", "pos_neg_ratio")
SMALLER_IS_BETTER = {"log": ("logloss", "ece"), "squared": ("rmse", "mae")}
"""By train.loss: under the other one, such a name is that of a metric of the user's own."""
CALIBRATION = "calibration"
"""Neither larger nor smaller is better: 1 is best."""
CLICK_FIGURES = (*LARGER_IS_BETTER, *SMALLER_IS_BETTER["log"], CALIBRATION)
"""Figures that a run can go by if its labels are clicks (train.loss: log)."""
VALUE_FIGURES = (*SMALLER_IS_BETTER["squared"], CALIBRATION)
"""Those of labels that are numbers (train.loss: squared)."""
FUNCTION_PATTERN = r"^[\w./-]+:[A-Za-z_]\w*$"


class MetricSettings(Section):
    threshold: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """Probability from which a row counts as predicted to be a click, for `precision` and `recall`."""
    recall_at: Annotated[list[Annotated[int, Field(ge=1, le=10**9)]], Field(max_length=16)] = []
    """Each k gives `recall@k`: the share of clicks among the k rows predicted highest, within each `features.group`."""
    calibration_bins: Annotated[int, Field(ge=1, le=1000)] = 10
    """Bins of about equally many rows, ordered by prediction, for `ece`, the expected calibration error."""
    own: Annotated[list[Annotated[str, Field(pattern=FUNCTION_PATTERN)]], Field(max_length=16)] = []
    """Metrics of your own, as module:function or path/file.py:function; each figure has its function's name."""
