"""Waiting for what should happen, and for no longer than it may take."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(true: Callable[[], object], *, seconds: float, doing: Callable[[], object] = lambda: None) -> None:
    """Wait for something; `doing` is called meanwhile, and may raise."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"waited in vain for {seconds:.0f} s"
        doing()
        time.sleep(0.05)
