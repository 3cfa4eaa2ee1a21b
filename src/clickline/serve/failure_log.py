"""Failures in the log, with nothing in them that the log's reader could take for a line of ours.

The message of an exception may hold what a client sent: line ends, escapes of a terminal. Frames of the traceback are
ours and stay as they are.
"""

from __future__ import annotations

import logging
import traceback


def log_failure(log: logging.Logger, what: str, error: BaseException) -> None:
    """A bug, or what looks like one: where it happened, and what was said."""
    log.error("%s: %s", what, failure_text(error))


def failure_text(error: BaseException) -> str:
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
