"""Answers of one version by their whole requests, in a bounded amount of memory.

It belongs to a loaded version and goes with it, so an answer of another version cannot come out of it. Requests are
found by hash and compared in full, so two that collide are two requests. The one that was not asked for the longest
goes first.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

CacheKey = tuple[str, bytes]
"""The form of a request, and its body."""
_OVERHEAD = 400
"""Bytes of an entry beside its body and its numbers."""


class CachedAnswer(NamedTuple):
    probability: NDArray[np.float32]
    missing: int


class RequestCache:
    """Any thread may call it."""

    def __init__(self, size: int) -> None:
        self._size, self._used = size, 0
        self._answers: OrderedDict[CacheKey, CachedAnswer] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._answers)

    @property
    def used(self) -> int:
        """Bytes."""
        return self._used

    def get(self, key: CacheKey) -> CachedAnswer | None:
        with self._lock:
            found = self._answers.get(key)
            if found is not None:
                self._answers.move_to_end(key)
            return found

    def put(self, key: CacheKey, probability: NDArray[np.float32], missing: int) -> None:
        """Keeps a copy of the numbers. What is larger than an eighth of the cache is not kept."""
        needed = _bytes(key, probability)
        if needed > self._size // 8:
            return
        answer = CachedAnswer(probability.copy(), missing)
        with self._lock:
            if key in self._answers:
                return
            while self._used + needed > self._size:
                old_key, old = self._answers.popitem(last=False)
                self._used -= _bytes(old_key, old.probability)
            self._answers[key] = answer
            self._used += needed


def _bytes(key: CacheKey, probability: NDArray[np.float32]) -> int:
    return len(key[1]) + int(probability.nbytes) + _OVERHEAD
