"""Failures in the log, escaped so that no client can forge a line of it.

The message of an exception may hold what a client sent: line ends, escapes of a terminal. Frames of the traceback are
ours and stay as they are.
"""

from __future__ import annotations

import logging
import traceback


def log_failure(log: logging.Logger, what: str, error: BaseException) -> None:
    """Log a bug, or what looks like one, with its traceback."""
    log.error("%s: %s", what, failure_text(error))


def failure_text(error: BaseException) -> str:
    """The exception and its causes, each with its traceback."""
    causes: list[str] = []
    seen: BaseException | None = error
    while seen is not None and len(causes) < 5:
        frames = "".join(traceback.format_tb(seen.__traceback__))
        causes.append(f"{type(seen).__name__}: {escaped(str(seen))}\n{frames}".rstrip())
        seen = seen.__cause__ or (None if seen.__suppress_context__ else seen.__context__)
    return "\n  because of ".join(causes)


def escaped(text: str, *, longest: int = 1000) -> str:
    """Printable ASCII only, everything else as Python writes it in a string."""
    return text[:longest].encode("unicode_escape").decode("ascii")
