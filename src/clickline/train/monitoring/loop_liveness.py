"""Whether the loop of a process still turns, for `/livez`. That the process answers at all is the rest of the proof."""

from __future__ import annotations

import time
from collections.abc import Callable


class LoopLiveness:
    """Of one loop, which calls `turned` at each turn. Before its first turn, and after `ended`, nothing is expected."""

    def __init__(self, name: str, *, limit: float, clock: Callable[[], float] = time.monotonic) -> None:
        """`limit`: seconds that a turn may take at most."""
        self._name, self._limit, self._clock = name, limit, clock
        self._turned_at: float | None = None

    def turned(self) -> None:
        self._turned_at = self._clock()

    def ended(self) -> None:
        self._turned_at = None

    def complaints(self) -> list[str]:
        """A sentence if the loop hangs, else nothing."""
        return silent_loop(self._name, self._turned_at, limit=self._limit, now=self._clock())


def silent_loop(name: str, turned_at: float | None, *, limit: float, now: float) -> list[str]:
    """A sentence if a loop that last turned then is taken to hang."""
    if turned_at is None or now - turned_at <= limit:
        return []
    return [f"{name} has not turned for {now - turned_at:.0f} s; at most {limit:.0f} s are expected"]


def longest_turn(retry_for: float) -> float:
    """Seconds that a step may take: it may wait for another process that is replaced, as long as requests are tried."""
    return max(300.0, 2 * retry_for)
