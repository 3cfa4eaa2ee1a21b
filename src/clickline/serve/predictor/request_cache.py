"""The request cache: results of one version by their whole requests, in a bounded amount of memory.

It belongs to a loaded version and goes with it, so it cannot return a result of another version. Requests are found by
hash and compared in full, so two that collide are two requests. The least recently used one is dropped first.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clickline.serve.prediction import CacheKey

_OVERHEAD = 400
"""Bytes of an entry beside its body and its numbers."""


class CachedResult(NamedTuple):
    """What is kept of a result."""

    probability: NDArray[np.float32]
    missing: int


class RequestCache:
    """Results by request. Any thread may call it."""

    def __init__(self, size: int) -> None:
        self._size, self._used = size, 0
        self._results: OrderedDict[CacheKey, CachedResult] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._results)

    @property
    def used(self) -> int:
        """Bytes in use."""
        return self._used

    def get(self, key: CacheKey) -> CachedResult | None:
        with self._lock:
            hit = self._results.get(key)
            if hit is not None:
                self._results.move_to_end(key)
            return hit

    def put(self, key: CacheKey, probability: NDArray[np.float32], missing: int) -> None:
        """Keep a copy of the numbers, unless it would take more than an eighth of the cache."""
        needed = _bytes(key, probability)
        if needed > self._size // 8:
            return
        # The array is a slice of the whole batch, which a reference would keep in memory beyond what is counted here.
        result = CachedResult(probability.copy(), missing)
        with self._lock:
            if key in self._results:
                return
            while self._used + needed > self._size:
                old_key, old = self._results.popitem(last=False)
                self._used -= _bytes(old_key, old.probability)
            self._results[key] = result
            self._used += needed


def _bytes(key: CacheKey, probability: NDArray[np.float32]) -> int:
    return len(key[1]) + int(probability.nbytes) + _OVERHEAD
