"""Waiting for what should happen, and for no longer than it may take."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from typing import Any

LONG = 240.0
"""Seconds: long for any machine, be it busy with a dozen processes that start."""


def eventually(
    condition: Callable[[], Any],
    *,
    what: str = "this",
    seconds: float = LONG,
    doing: Callable[[], object] | None = None,
    process: subprocess.Popen[Any] | None = None,
) -> Any:
    """The first true value of the condition.

    Fails after so many seconds, or, if a process is given, when that ends before. `doing` is called between two looks
    at the condition, and may raise.
    """
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        if process is not None and process.poll() is not None:
            out, err = process.communicate()
            raise AssertionError(f"a process ended with {process.returncode} before {what}:\n{out}\n{err}")
        assert time.monotonic() < deadline, f"{what} should have happened within {seconds:.0f} s"
        if doing is not None:
            doing()
        time.sleep(0.01)
    return value
