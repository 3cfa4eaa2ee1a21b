"""Interrupts: signals are deferred until a step has ended, and an interrupted run reports what it kept.

Python raises KeyboardInterrupt anywhere: between taking a lock and knowing that it is taken, or within a step.
A run therefore only notes that it should stop. It then writes a checkpoint between two steps and raises
TrainingInterrupted, which says what was kept, what is lost and how to resume. Both have a limit of time, and a second
Ctrl+C is not patient at all.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

from clickline.train.run_files.run_directory import JOB_FILE

_CAUGHT = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class TrainingInterrupted(KeyboardInterrupt):
    """Raised when a run was interrupted. Its text is for people."""


class Interrupts:
    """While it is entered, Ctrl+C, SIGTERM and SIGHUP only make `asked` true and `check` raise.

    A second Ctrl+C raises at once. So does the first one when `limit` seconds have passed and it was not
    acknowledged: then no step has ended, as when data is awaited that never arrives. 0: it may take any time.
    """

    def __init__(self, *, limit: float = 0.0) -> None:
        self._limit = limit
        self._signal: str | None = None
        self._acknowledged = False
        self._before: dict[int, Any] = {}

    @property
    def asked(self) -> bool:
        """Whether the run should stop, and `acknowledge` was not called yet."""
        return self._signal is not None and not self._acknowledged

    @property
    def name(self) -> str:
        """The name of the signal that came."""
        return self._signal or "an interrupt"

    def check(self) -> None:
        """Raise KeyboardInterrupt if one was due."""
        if self.asked:
            raise KeyboardInterrupt(self._signal)

    def acknowledge(self) -> None:
        """The run is being stopped: from here on only another Ctrl+C interrupts."""
        self._acknowledged = True
        if self._before:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # signals are of no concern to others
            found = {number: signal.getsignal(number) for number in _CAUGHT}
            # A signal that is ignored (nohup) stays ignored.
            self._before = {number: old for number, old in found.items() if old not in (signal.SIG_IGN, None)}
            for number in self._before:
                signal.signal(number, self._note)
            self._before[signal.SIGALRM] = signal.signal(signal.SIGALRM, self._too_late)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Disarmed before the handlers are restored: by default SIGALRM ends the process.
        if self._before:
            signal.setitimer(signal.ITIMER_REAL, 0)
        for number, old in self._before.items():  # asked once is enough: the clean-up is not to be stopped as well
            ignored = self._signal is not None and number in (signal.SIGTERM, signal.SIGHUP)
            signal.signal(number, signal.SIG_IGN if ignored else old)
        # A signal that came after the last step was seen by no step: it ends the run here.
        if kind is None:
            self.check()

    def _note(self, number: int, _frame: FrameType | None) -> None:
        # This runs between any two bytecodes of the main thread, which may hold a lock: it takes none itself.
        if self._signal is not None:
            if number == signal.SIGINT:
                raise KeyboardInterrupt("Ctrl+C came again")
            return
        self._signal = signal.Signals(number).name
        if self._limit > 0:
            signal.setitimer(signal.ITIMER_REAL, self._limit)

    def _too_late(self, _number: int, _frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt(f"no step ended within {self._limit:g} s")


@contextmanager
def handlers_restored() -> Iterator[None]:
    """Around a whole run: whatever signals did to it, the program that called it has its own handlers again afterwards.

    Interrupts leaves SIGTERM and SIGHUP ignored, so that the run's clean-up is not stopped as well.
    """
    before = {number: signal.getsignal(number) for number in _CAUGHT}
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            for number, handler in before.items():
                if handler is not None:  # not set from Python
                    signal.signal(number, handler)


def finished_within(seconds: float, work: Callable[[], object]) -> str:
    """Do something in another thread; empty if it was done in time, else why not."""
    # Handlers of signals run in the main thread only. It waits in `join`, which a second Ctrl+C interrupts; the work
    # itself may be in native code or in fsync, where an interrupt would wait for the end of the call.
    failure: list[BaseException] = []

    def attempt() -> None:
        try:
            work()
        except BaseException as error:
            failure.append(error)

    # A daemon: if it takes too long, the process ends without waiting for it.
    thread = threading.Thread(target=attempt, name="clickline-last-save", daemon=True)
    try:
        thread.start()
        thread.join(seconds)
    except KeyboardInterrupt as error:
        return str(error) or "interrupted again"
    if thread.is_alive():
        return f"it took longer than {seconds:g} s, checkpoint.interrupt_timeout"
    return f"{failure[0]}" if failure else ""


def interruption(
    signal_name: str, *, directory: Path, step: int, first_step: int, newest: Path | None, written: bool, why: str
) -> TrainingInterrupted:
    """The error that ends the run. `why` is the reason that the newest checkpoint is not of this step, if it is not."""
    parts = [f"interrupted by {signal_name} after step {step:,}"]
    if newest is None:
        lost = step - first_step
        parts.append("there is no checkpoint" + (f" ({why})" if why else ""))
        parts.append(f"{_steps(lost)} lost" if lost else "nothing was trained yet")
    else:
        lost = step - int(newest.name.rpartition("-")[2])
        how = "was written" if written else "is the newest checkpoint" + (f" ({why})" if why else "")
        parts.append(f"{newest} {how}")
        parts.append(f"{_steps(lost)} lost" if lost > 0 else "nothing is lost")
    job = directory / JOB_FILE
    command = f"clickline train {job}" if job.exists() else "the same command"
    parts.append(f"to go on: {command}" + (" --resume" if newest is not None else " --fresh"))
    return TrainingInterrupted("; ".join(parts))


def _steps(count: int) -> str:
    return "1 step is" if count == 1 else f"{count:,} steps are"
