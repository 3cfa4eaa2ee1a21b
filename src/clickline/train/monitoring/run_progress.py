"""How far a whole run has come, and the seconds it will still take, from the steps and epochs that are done."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

_SAMPLE_EVERY, _SAMPLES = 1.0, 300
"""The speed is that of the last five minutes: trainers come and go, and validation stands between two epochs."""


class RunProgress:
    """Progress of one run, asked for by any thread."""

    def __init__(self, *, epochs: int, max_steps: int = 0, clock: Callable[[], float] = time.monotonic) -> None:
        self._epochs, self._max_steps, self._clock = epochs, max_steps, clock
        self._samples: deque[tuple[float, float]] = deque(maxlen=_SAMPLES)
        self._lock = threading.Lock()

    def of(
        self, *, epochs_done: int, share: float | None, steps: int, finished: bool = False
    ) -> tuple[float | None, float | None]:
        """The share of the run that is done, and the seconds that are left, each None if unknown.

        `share` is that of the epoch under way; `steps` are those of this run.
        """
        if finished:
            return 1.0, 0.0
        done = None if share is None else min((epochs_done + share) / self._epochs, 1.0)
        if self._max_steps:
            done = max(done or 0.0, min(steps / self._max_steps, 1.0))
        if done is None:
            return None, None
        return round(done, 4), self._seconds_left(done)

    def _seconds_left(self, done: float) -> float | None:
        now = self._clock()
        with self._lock:
            if self._samples and done < self._samples[-1][1]:
                self._samples.clear()  # the run has gone back to a checkpoint
            if not self._samples or now - self._samples[-1][0] >= _SAMPLE_EVERY:
                self._samples.append((now, done))
            since, before = self._samples[0]
        if done <= before:
            return None
        return round((now - since) * (1 - done) / (done - before), 1)
