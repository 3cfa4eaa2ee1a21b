"""The supervisor's side of a heartbeat: for how long a process has stood still. `heartbeat` has the other side.

Only time that the supervisor has watched counts: between two looks it counts one second at most. So a supervisor that
was stopped itself, or that looked only seldom on a busy machine, does not find all processes dead when it goes on.

A process that starts does not beat yet. As long as it uses the processor it is not standing still; one that does not
for a minute, before its first beat, is.
"""

from __future__ import annotations

import mmap
import os
import time
from pathlib import Path

from clickline.processes.heartbeats.heartbeat import MARK, SIZE

STALL_AFTER = 15.0
"""Seconds without a heartbeat after which a process stands still: far more than a busy machine keeps a loop waiting."""
_START_WITHIN = 60.0
_LONGEST_LOOK = 1.0
_LOOK_AT_TIMES_EVERY = 1.0


class HeartbeatMonitor:
    """Watches one start of one process, which inherits `descriptor`."""

    def __init__(self, *, stall_after: float) -> None:
        self._limit = stall_after
        self.descriptor = os.memfd_create("clickline-heartbeat", os.MFD_CLOEXEC)
        os.ftruncate(self.descriptor, SIZE)
        self._memory = mmap.mmap(self.descriptor, SIZE)
        self._memory[: len(MARK)] = MARK
        self._counter = memoryview(self._memory)[len(MARK) :].cast("Q")
        self.silent = 0.0
        """Seconds without a heartbeat that were watched."""
        self._sign = (0, 0)
        self._looked = time.monotonic()
        self._looked_at_times = 0.0

    def started(self) -> None:
        """The process has the descriptor now; ours is not needed any more."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    @property
    def begun(self) -> bool:
        """Whether it has beaten at all."""
        return self._counter[0] > 0

    @property
    def stalled(self) -> bool:
        return self.silent >= (self._limit if self.begun else max(self._limit, _START_WITHIN))

    @property
    def long_stalled(self) -> bool:
        """Whether it has stood still for so long that it cannot just be slow."""
        return self.stalled and self.silent >= 4 * self._limit

    def look(self, pid: int | None) -> None:
        """Note whether it has beaten since the last look. Call it a few times a second."""
        now = time.monotonic()
        # Time that we did not watch, because we were stopped ourselves, is no proof of anything.
        watched, self._looked = min(now - self._looked, _LONGEST_LOOK), now
        beats, used = self._counter[0], self._sign[1]
        # Before its first beat a process loads code, which shows in its processor time; to read that is not free.
        if not beats and now - self._looked_at_times >= _LOOK_AT_TIMES_EVERY:
            self._looked_at_times = now
            used = _processor_time(pid)
        if (beats, used) != self._sign:
            self._sign, self.silent = (beats, used), 0.0
        else:
            self.silent += watched


def _processor_time(pid: int | None) -> int:
    """Ticks that a process has used so far, all of its threads."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return 0
    # Counted after the name in parentheses, which may contain spaces: 0 is the state, 11 and 12 are utime and stime.
    return int(fields[11]) + int(fields[12])
