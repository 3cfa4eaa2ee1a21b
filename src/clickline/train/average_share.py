"""How fast the moving average of dense parameters follows them: in one process as on parameter servers."""

from __future__ import annotations

WARM_UP = 10


def average_share(keep: float, step: int) -> float:
    """The part of the way that the average moves at a step. The first ones count more: the start is random."""
    return 1 - min(keep, step / (step + WARM_UP))
