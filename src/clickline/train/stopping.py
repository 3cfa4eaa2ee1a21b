"""When a run has had enough: so many steps, or no better validation for so many epochs."""

from __future__ import annotations

from clickline.config.training import Train


def enough(settings: Train, *, step: int) -> bool:
    """Whether the steps that the job allows are done."""
    return 0 < settings.max_steps <= step


def stopped_early(settings: Train, *, stale_epochs: int) -> bool:
    """Whether validation has not become better for as long as the job waits."""
    patience = settings.early_stopping.patience
    return patience > 0 and stale_epochs >= patience


def better(settings: Train, *, auc: float | None, best: float | None) -> bool:
    """Whether an epoch's validation beats the best one before by enough."""
    return auc is not None and (best is None or auc > best + settings.early_stopping.min_delta)
