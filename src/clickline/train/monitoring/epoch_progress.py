"""How far an epoch is: its share that is done, the time that is left, and the AUC, or RMSE, of the last rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clickline.config.training import Loss
from clickline.train.evaluation.interval_figures import recent_figures

_RECENT_ROWS = 20_000
_RECENT_EVERY = 1.0


class EpochProgress:
    """Progress of one epoch after the other; `begin` starts the next one."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic, loss: Loss = "log") -> None:
        self._clock = clock
        self._loss: Loss = loss
        self._first: tuple[float, float] | None = None
        self._recent: dict[str, float] = {}
        self._recent_at = -_RECENT_EVERY

    def begin(self) -> None:
        """An epoch begins, or what is left of it is begun."""
        self._first = None

    def text(self, share: float | None) -> str:
        """`43 % of the epoch, 2 min 10 s left`; without the time at first, nothing where the size is not known."""
        if share is None:
            return ""
        now = self._clock()
        # A resumed epoch starts at a share above 0 that took no time in this process: the rate is measured from it.
        if self._first is None:
            self._first = now, share
        since, before = self._first
        done = f"{share:.0%} of the epoch".replace("%", " %")
        if share <= before:
            return done
        return f"{done}, {duration((now - since) * (1 - share) / (share - before))} left"

    def recent_figures(self, logits: Sequence[NDArray[Any]], labels: Sequence[NDArray[Any]]) -> dict[str, float]:
        """AUC, or RMSE, of the last rows of some batches, computed once a second at most, so that it costs nothing."""
        now = self._clock()
        if now - self._recent_at >= _RECENT_EVERY and len(logits):
            self._recent_at = now
            taken = rows = 0
            while taken < len(logits) and rows < _RECENT_ROWS:
                taken += 1
                rows += len(logits[-taken])
            last = np.concatenate(logits[-taken:]), np.concatenate(labels[-taken:])
            self._recent = recent_figures(*last, loss=self._loss)
        return self._recent


def duration(seconds: float) -> str:
    """`1 h 5 min`, `2 min 10 s` or `8 s`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
