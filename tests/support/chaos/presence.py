"""Who was there when: looks at every replica and worker a few times a second, and remembers whom faults hit.

A request that fails while no replica of a shard, or no worker, was there is no broken promise, but it is counted and
said: the scheduler never means that to happen.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from support.chaos.books import Books
from support.chaos.workload.linked_suite import REPLICAS, SHARDS, LinkedSuite, state_of

_EVERY = 0.5
_SLACK = 1.5
"""Seconds around a look for which it speaks."""
_WORKER_SLACK = 1.0


@dataclass
class _Hit:
    """A fault of a worker; `ended` is infinite while it lasts."""

    what: str
    began: float
    ended: float = math.inf


class Presence(threading.Thread):
    """Ends when it is told to."""

    def __init__(self, suite: LinkedSuite, books: Books) -> None:
        super().__init__(name="presence", daemon=True)
        self._suite, self._books = suite, books
        self._over = threading.Event()
        self._absences: deque[tuple[float, float, str]] = deque(maxlen=2000)
        """Beginning and end of a look that found nobody, and of what."""
        self._hits: deque[_Hit] = deque(maxlen=2000)

    def run(self) -> None:
        while not self._over.wait(_EVERY):
            began = time.monotonic()
            gone = [f"shard {shard}" for shard in range(SHARDS) if not self._shard_answers(shard)]
            if not any(state_of(pid) not in ("T", "Z", "") for pid in self._suite.workers()):
                gone.append("the predictor's workers")
            for what in gone:
                if not any(end > began - 2 * _EVERY and what == name for _, end, name in self._absences):
                    self._books.count(absences=1)
                    self._books.event(f"nobody is there of {what}")
                self._absences.append((began, time.monotonic(), what))

    def end(self) -> None:
        self._over.set()
        self.join()

    @contextmanager
    def worker_hit(self, what: str) -> Iterator[None]:
        """A worker is killed or stands still meanwhile. Known from the beginning: its clients are quick to complain."""
        hit = _Hit(what, began=time.monotonic())
        self._hits.append(hit)
        try:
            yield
        finally:
            hit.ended = time.monotonic()

    def harmed(self, began: float, ended: float) -> str:
        for first, last, what in list(self._absences):
            if first - _SLACK <= ended and last + _SLACK >= began:
                return f"nobody was there of {what}"
        for hit in list(self._hits):
            if hit.began - _WORKER_SLACK <= ended and hit.ended + _WORKER_SLACK >= began:
                return hit.what
        return ""

    def _shard_answers(self, shard: int) -> bool:
        ranks = range(shard * REPLICAS, (shard + 1) * REPLICAS)
        return any(self._suite.switch_number(rank, deadline=1.0) for rank in ranks)
