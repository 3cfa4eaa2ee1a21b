"""When a run ends before its last epoch: after train.max_steps, or when validation has stopped improving."""

from __future__ import annotations

from collections.abc import Mapping

from clickline.config.metric_settings import CALIBRATION, SMALLER_IS_BETTER
from clickline.config.training import Train


def last_step(settings: Train, *, first_step: int) -> int:
    """The step with which a run ends that began to count at `first_step`; 0 if the job does not limit steps."""
    return first_step + settings.max_steps if settings.max_steps else 0


def enough(settings: Train, *, step: int, first_step: int) -> bool:
    """Whether the steps that the job allows are done."""
    return 0 < last_step(settings, first_step=first_step) <= step


def stopped_early(settings: Train, *, stale_epochs: int) -> bool:
    """Whether validation has not become better for as long as the job waits."""
    patience = settings.early_stopping.patience
    return patience > 0 and stale_epochs >= patience


def early_stop_message(stale_epochs: int, *, best_step: int | None) -> str:
    """The line that is shown when a run stops early."""
    best = "" if best_step is None else f"; the best checkpoint is that of step {best_step:,}"
    return f"stopped early after {stale_epochs} epoch{'s' * (stale_epochs != 1)} without improvement{best}"


def score(settings: Train, figures: Mapping[str, float]) -> float | None:
    """The figure that early stopping goes by, turned so that larger is better; None if these rows do not define it."""
    wanted = settings.early_stopping
    value = figures.get(settings.stopping_metric)
    if value is None:
        return None
    name = settings.stopping_metric.rpartition(".")[2]
    # Calibration is best at 1: above it a model predicts too many clicks, below it too few.
    if wanted.direction == "auto" and name == CALIBRATION:
        return -abs(value - 1)
    smaller = wanted.direction == "min" or (wanted.direction == "auto" and name in SMALLER_IS_BETTER[settings.loss])
    return -value if smaller else value


def better(settings: Train, figures: Mapping[str, float], *, best: float | None) -> bool:
    """Whether an epoch's validation beats the best score before by enough."""
    now = score(settings, figures)
    return now is not None and (best is None or now > best + settings.early_stopping.min_delta)
