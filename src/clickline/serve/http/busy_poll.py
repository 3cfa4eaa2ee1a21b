"""Staying awake for a moment after an answer: whoever got it may ask again at once, and to be woken up takes long.

As in the native code (spinning.h), nobody stays awake where it does not pay: who did so in vain, or did not get on
because others want the core, sleeps at once for the next while. So a worker that is asked seldom sleeps, and on a busy
machine nobody is kept waiting.
"""

from __future__ import annotations

import asyncio
import os
from time import perf_counter

BUSY = 5e-5
"""Seconds between two turns of a loop that does nothing else: somebody else ran."""
REST = 0.01
"""Seconds for which a loop that stayed awake in vain sleeps whenever it can."""


class Wakefulness:
    """Of a loop; its thread only."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, seconds: float) -> None:
        """With 0 seconds, or only one core, it always sleeps."""
        self._loop = loop
        self._seconds = seconds if len(os.sched_getaffinity(0)) > 1 else 0.0
        self._awake = self._asked = False
        self._last = self._until = self._rest_until = 0.0

    def asked(self) -> None:
        """Something has come, so that staying awake was worth it."""
        self._asked = True

    def answered(self) -> None:
        """An answer is out. Of several in one go the last counts: until then the loop was at work."""
        now = perf_counter()
        if not self._seconds or now < self._rest_until:
            return
        self._asked = False
        self._last, self._until = now, now + self._seconds
        if not self._awake:
            self._awake = True
            self._loop.call_soon(self._turn)  # with something to call, the loop polls and does not wait

    def _turn(self) -> None:
        now = perf_counter()
        if self._asked:
            self._awake = False
        elif now > self._until or now - self._last > BUSY:
            self._awake = False
            self._rest_until = now + REST
        else:
            self._last = now
            self._loop.call_soon(self._turn)
