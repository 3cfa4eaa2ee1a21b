"""One line format for the logs of all processes: `2026-01-02T03:04:05.678 INFO pserver.0 text`, time in UTC.

UTC, so that logs of several machines merge, and no hour comes twice in autumn. Lines that do not begin with a time, as
of a traceback, belong to the line before them. A process writes to stderr; who started it decides where that goes.
"""

from __future__ import annotations

import faulthandler
import logging
import re
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

_STAMP = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3} ")
STAMP_LENGTH = 23
_BLOCK = 1 << 16
_CONTROLS = [*range(0x20), *range(0x7F, 0xA0), 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A)]
_ESCAPES = {code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" for code in _CONTROLS} | {0x0A: "\\n"}
"""Characters that end lines, control terminals, or turn the direction of text, as Python would write them."""


class _Lines(logging.Formatter):
    converter = staticmethod(time.gmtime)
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03d"

    def formatMessage(self, record: logging.LogRecord) -> str:
        # A message may quote what a stranger sent: it must neither begin a line nor control a terminal.
        record.message = record.message.rstrip("\n").translate(_ESCAPES)
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:
        lines = super().formatException(ei).split("\n")
        # A line that looks like one of the log's own gets a space: text in an exception must not forge log entries.
        return "\n".join(
            (" " if _STAMP.match(text.encode("utf-8", "replace")) else "") + text.translate(_ESCAPES) for text in lines
        )


def set_up(role: str, rank: int, *, level: int = logging.INFO) -> None:
    """Send this process's log to stderr, warnings and crashes of native code included."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines(f"%(asctime)s %(levelname)s {role}.{rank} %(message)s"))
    logging.basicConfig(handlers=[handler], level=level, force=True)
    logging.captureWarnings(True)
    if sys.stderr is sys.__stderr__:  # else a test holds it, and it may have no file behind it
        faulthandler.enable()


class LogFile(logging.FileHandler):
    """A file with lines as `set_up` would write them, made when there is a first one. A full disk loses lines only."""

    def __init__(self, file: Path, role: str, rank: int) -> None:
        super().__init__(file, encoding="utf-8", delay=True)
        self.setFormatter(_Lines(f"%(asctime)s %(levelname)s {role}.{rank} %(message)s"))

    @property
    def begun(self) -> bool:
        return self.stream is not None

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError):
            if not self.begun:
                Path(self.baseFilename).parent.mkdir(parents=True, exist_ok=True)
            super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:
        pass


def line(name: str, text: str, *, level: str = "INFO") -> str:
    """A line as `set_up` would write it, for who has no logger of that name."""
    now = time.time()
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
    return f"{stamp}.{int(now % 1 * 1000):03d} {level} {name} {text}\n"


def stamp_of(text: bytes) -> str:
    """The time that a line begins with; empty if it begins with none."""
    return text[:STAMP_LENGTH].decode("ascii") if _STAMP.match(text) else ""


def tail(path: Path, lines: int, *, since: int = 0) -> list[str]:
    """The last lines of a file, as far back as byte `since`. A file that is not there has none."""
    return [text.decode("utf-8", "replace") for text in last_lines(path, lines, since=since)[0]]


def last_lines(path: Path, lines: int, *, since: int = 0) -> tuple[list[bytes], int]:
    """The last whole lines, read from the end, and the position after what was read: where following goes on."""
    try:
        with path.open("rb") as file:
            end = start = file.seek(0, 2)
            content = b""
            # one line more than asked for, since the first may be cut
            while start > since and content.count(b"\n") <= lines:
                step = min(_BLOCK, start - since)
                start -= step
                file.seek(start)
                content = file.read(step) + content
    except FileNotFoundError:
        return [], 0
    split = content.split(b"\n")
    if split and not split[-1]:
        split.pop()
    return (split[-lines:] if lines else []), end
