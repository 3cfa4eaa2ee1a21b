"""A child's side of being launched: it dies with its launcher, even when that is killed without a chance to say so.

Linux sends the signal when the *thread* that started the child ends, so a launcher starts its children from a thread
that lives as long as they do. The child asks for it itself, early: code between fork and exec is not safe in a process
that has threads, and the launcher has.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

LAUNCHER = "CLICKLINE_LAUNCHER"
"""The launcher's process id, in the environment of what it starts."""
_PR_SET_PDEATHSIG = 1
_launched = False


def live_no_longer_than_parent() -> bool:
    """Whether a launcher started this process; if so, the kernel kills us when it is gone.

    Processes started by hand or by another supervisor are left alone: closing a shell must not stop a server.
    """
    global _launched  # noqa: PLW0603  (a fact about the process, as the variable was)
    launcher = os.environ.pop(LAUNCHER, "")  # not for our own children, whose parent is another
    if not launcher.isdigit():
        return _launched
    _launched = True
    # Asked for before anything else: a launcher that is killed from here on takes this process with it.
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    # The kernel sends the signal for a death from now on only. If the launcher has died before, we have another parent.
    if os.getppid() != int(launcher):
        raise SystemExit(f"the launcher, process {launcher}, is gone")
    return True


def launched() -> bool:
    """Whether `live_no_longer_than_parent` found a launcher: the job is then resolved, flags included."""
    return _launched


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP raise KeyboardInterrupt, as Ctrl+C does, so that there is one way to stop, which cleans up.

    Only the first of them: more, sent while we clean up, change nothing. Main thread only.
    """
    caught = (signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in caught}

    def interrupt(number: int, _frame: FrameType | None) -> None:
        # A second signal while we clean up would interrupt the cleaning.
        for each in caught:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt(signal.Signals(number).name)

    for number in caught:
        if before[number] is not signal.SIG_IGN:  # nohup says that a hangup is no reason to stop
            signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
