"""A heartbeat: how a process proves to its supervisor that the loop that serves still turns.

The supervisor shares eight bytes of memory with each process that it starts: a counter, which the process raises a few
times a second from that loop, and which the supervisor compares by its own clock. A process that is stopped, or whose
loop hangs, raises it no more. A thread beside the loop must not do it: it would go on when the loop does not.

Imports nothing of the project: any layer may use it.
"""

from __future__ import annotations

import mmap
import os
from contextlib import suppress

VARIABLE = "CLICKLINE_HEARTBEAT"
"""The descriptor of the shared memory, in the environment of what a supervisor starts."""
BEAT_EVERY = 0.25
MARK = b"CLBEAT01"
SIZE = 2 * len(MARK)


class Heartbeat:
    """The side of the process that is watched. Without a supervisor, beats go nowhere."""

    def __init__(self, memory: mmap.mmap | None = None) -> None:
        self._counter = None if memory is None else memoryview(memory)[len(MARK) :].cast("Q")

    @classmethod
    def inherited(cls) -> Heartbeat:
        """The one that this process was given. Taken once: what it starts itself is watched by itself, if at all."""
        text = os.environ.pop(VARIABLE, "")
        if not (text.isascii() and text.isdigit()):
            return cls()
        with suppress(OSError, ValueError):
            memory = mmap.mmap(int(text), SIZE)
            if memory[: len(MARK)] == MARK:  # else the number means something else here, and is left alone
                os.close(int(text))
                return cls(memory)
        return cls()

    @property
    def watched(self) -> bool:
        return self._counter is not None

    def beat(self) -> None:
        """The loop has turned. Costs less than a microsecond."""
        if self._counter is not None:
            # No lock: this process is the only writer, and the supervisor only compares the counter for change.
            self._counter[0] += 1
