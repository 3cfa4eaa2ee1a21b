"""The figures of an interval of training, by the run's loss: of one process, or of what trainers have reported."""

from __future__ import annotations

from clickline.config.metric_settings import MetricSettings
from clickline.config.training import Loss
from clickline.train.evaluation.metrics import Floats, auc, measure
from clickline.train.evaluation.value_metrics import measure_values


def interval_figures(
    outputs: Floats, labels: Floats, weights: Floats | None, *, settings: MetricSettings, loss: Loss
) -> dict[str, float]:
    """Figures of the first label over all rows of an interval. `outputs` are logits, or values with a squared loss."""
    if loss == "squared":
        return measure_values(outputs, labels, weights=weights).to_dict()
    figures = measure(outputs, labels, weights=weights, threshold=settings.threshold, bins=settings.calibration_bins)
    return figures.to_dict()


def batch_figures(outputs: Floats, labels: Floats, *, loss: Loss) -> dict[str, float]:
    """Figures of an interval's last batch alone."""
    area = auc(outputs, labels) if loss == "log" else None
    return {} if area is None else {"batch_auc": area}


def recent_figures(outputs: Floats, labels: Floats, *, loss: Loss) -> dict[str, float]:
    """The one figure that a progress bar has room for."""
    if loss == "squared":
        error = measure_values(outputs, labels).rmse
        return {} if error is None else {"rmse": error}
    area = auc(outputs, labels)
    return {} if area is None else {"auc": area}
