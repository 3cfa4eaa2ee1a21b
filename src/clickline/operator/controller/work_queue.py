"""Keys of jobs that are to be looked at, now or later: each once, however often named, never twice at a time."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple

_log = logging.getLogger(__name__)
_FIRST_DELAY, _LONGEST_DELAY = 0.25, 60.0


class JobKey(NamedTuple):
    """Which job."""

    namespace: str
    name: str


class WorkQueue:
    """A queue of one event loop. A handler that raises is called again, after longer and longer times."""

    def __init__(self, handle: Callable[[JobKey], Awaitable[None]], *, workers: int, gather: float = 0.05) -> None:
        self._handle = handle
        self._free = asyncio.Semaphore(workers)
        self._gather = gather
        self._due: dict[JobKey, float] = {}
        self._busy: dict[JobKey, float] = {}
        """By key, since when."""
        self._failures: dict[JobKey, int] = {}
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, key: JobKey, *, delay: float | None = None) -> None:
        """Have a job looked at after so many seconds; soon if not given, when what comes together has come."""
        due = time.monotonic() + (self._gather if delay is None else delay)
        self._due[key] = min(due, self._due.get(key, due))
        self._changed.set()

    def hanging(self, seconds: float) -> list[str]:
        """A sentence about each job that has been looked at for longer than this."""
        now = time.monotonic()
        return [
            f"{key.namespace}/{key.name} has been looked at for {now - since:.0f} s"
            for key, since in self._busy.items()
            if now - since > seconds
        ]

    async def run(self) -> None:
        """Look at jobs when they are due, until cancelled."""
        try:
            while True:
                self._changed.clear()
                await self._free.acquire()
                key = self._next()
                if key is None:
                    self._free.release()
                    await self._wait()
                    continue
                task = asyncio.create_task(self._work(key), name=f"reconcile {key.namespace}/{key.name}")
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _next(self) -> JobKey | None:
        now = time.monotonic()
        ready = [(due, key) for key, due in self._due.items() if due <= now and key not in self._busy]
        if not ready:
            return None
        key = min(ready)[1]
        del self._due[key]
        self._busy[key] = now
        return key

    async def _wait(self) -> None:
        waiting = [due for key, due in self._due.items() if key not in self._busy]
        timeout = max(0.0, min(waiting) - time.monotonic()) if waiting else None
        # Not wait_for: before Python 3.12 it may swallow a cancellation that comes together with the event.
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._changed.wait()

    async def _work(self, key: JobKey) -> None:
        try:
            await self._handle(key)
            self._failures.pop(key, None)
        except Exception as error:  # whatever it is, other jobs must go on, and this one is tried again
            count = self._failures[key] = self._failures.get(key, 0) + 1
            delay = min(_FIRST_DELAY * 2.0 ** (count - 1), _LONGEST_DELAY)
            _log.warning("%s/%s: %s; again in %g s", key.namespace, key.name, error, delay)
            _log.debug("where it failed", exc_info=error)
            self.add(key, delay=delay)
        finally:
            self._busy.pop(key, None)
            self._free.release()
            self._changed.set()
