"""Signals that wait for a good moment.

Python raises KeyboardInterrupt anywhere, between taking a lock and knowing that it is taken as well; the threads that
answer trainers would then wait for that lock for ever. A coordinator therefore only notes that it should stop, and
stops when it looks around next.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self

_CAUGHT = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """While it is entered, Ctrl+C, SIGTERM and SIGHUP only make `check` raise. A second Ctrl+C is not patient."""

    def __init__(self) -> None:
        self._asked: str | None = None
        self._before: dict[int, Any] = {}

    def check(self) -> None:
        """Raise KeyboardInterrupt if one was due."""
        if self._asked is not None:
            raise KeyboardInterrupt(self._asked)

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # signals are of no concern to others
            found = {number: signal.getsignal(number) for number in _CAUGHT}
            self._before = {number: old for number, old in found.items() if old not in (signal.SIG_IGN, None)}
            for number in self._before:
                signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, old in self._before.items():  # asked once is enough: the clean-up is not to be stopped as well
            signal.signal(number, signal.SIG_IGN if self._asked and number != signal.SIGINT else old)
        if kind is None:
            self.check()

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if self._asked is not None and number == signal.SIGINT:
            raise KeyboardInterrupt("SIGINT again")
        self._asked = signal.Signals(number).name
