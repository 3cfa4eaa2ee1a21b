"""Busy polling for a moment after a response: its client may send the next request at once, and waking up takes long.

As in the native code (spinning.h), a loop does not poll where it does not pay: one that polled in vain, or was held up
because other processes want the core, sleeps whenever it can for the next while. So a worker with few requests sleeps,
and on a busy machine polling keeps nobody waiting.
"""

from __future__ import annotations

import asyncio
import os
from time import perf_counter

BUSY = 5e-5
"""Seconds between two turns of a loop that does nothing else: if it took longer, another process ran."""
REST = 0.01
"""Seconds for which a loop that polled in vain sleeps whenever it can."""


class BusyPoll:
    """Keeps an event loop from sleeping after a response. The loop's thread only."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, seconds: float) -> None:
        """With 0 seconds, or only one core, the loop always sleeps."""
        self._loop = loop
        self._seconds = seconds if len(os.sched_getaffinity(0)) > 1 else 0.0
        self._polling = self._came = False
        self._last = self._until = self._rest_until = 0.0

    def request_came(self) -> None:
        """Polling was worth it."""
        self._came = True

    def response_sent(self) -> None:
        """Begin to poll. Of several responses in one go the last counts: until then the loop was at work."""
        now = perf_counter()
        if not self._seconds or now < self._rest_until:
            return
        self._came = False
        self._last, self._until = now, now + self._seconds
        if not self._polling:
            self._polling = True
            self._loop.call_soon(self._turn)  # with something to call, the loop polls its sockets and does not wait

    def _turn(self) -> None:
        now = perf_counter()
        if self._came:
            self._polling = False
        elif now > self._until or now - self._last > BUSY:
            self._polling = False
            self._rest_until = now + REST
        else:
            self._last = now
            self._loop.call_soon(self._turn)
