"""A process known by number and birth from a file: found again, and only then signalled.

Numbers of processes are given anew. A descriptor of the process (pidfd) is opened first and its birth compared after:
if it is the same then, the descriptor means the process that was noted and no other, also when it ends a moment later.
"""

from __future__ import annotations

import os
import select
import signal
from types import TracebackType
from typing import Any, Self

from clickline.processes.process_identity import birth, boot_id


class NotedProcess:
    """Holds a descriptor of the process: a context manager."""

    def __init__(self, pid: int, descriptor: int) -> None:
        self.pid, self._descriptor = pid, descriptor

    @classmethod
    def find(cls, pid: Any, born: Any, *, boot: Any) -> Self | None:
        """The process; None if it has ended, or if its birth does not prove that this is the one."""
        if not isinstance(pid, int) or pid <= 1 or not isinstance(born, int) or not born or boot != boot_id():
            return None
        # The order matters: between a look at the birth and opening the descriptor the number could change hands.
        try:
            descriptor = os.pidfd_open(pid)
        except OSError:  # gone; or a kernel before 5.3, on which nothing can be proven
            return None
        if birth(pid) == born:
            return cls(pid, descriptor)
        os.close(descriptor)
        return None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal; nothing happens if it has ended. Raises PermissionError if another user owns it."""
        try:
            signal.pidfd_send_signal(self._descriptor, number)
        except ProcessLookupError:
            return

    @property
    def ended(self) -> bool:
        """Whether it has ended; it need not have been reaped."""
        return bool(select.select([self._descriptor], [], [], 0)[0])
