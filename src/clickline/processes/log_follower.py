"""The logs of a run as one: lines of several files merged by their times, the last ones or all that are still to come.

A line without a time stays behind the line before it, so a traceback is not torn apart. Files may appear later, be cut
to nothing or be replaced; what has been shown once is not shown again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from clickline.processes.logs import last_lines, stamp_of

_MOST = 1 << 22
"""Bytes read from one file at a time."""
_TRACEBACK = 200
"""How far to look back for the time that the first line shown belongs to."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of one log."""

    name: str
    """ROLE.RANK, from the file's name."""
    stamp: str
    """Its time, or that of the last line before it that has one."""
    text: str


@dataclass(slots=True)
class _Position:
    inode: int
    offset: int
    rest: bytes = b""
    """The beginning of a line whose end is not written yet."""
    stamp: str = ""


class Follower:
    """Reads the logs in a directory. `wanted` chooses among the names, ROLE.RANK."""

    def __init__(self, directory: Path, *, wanted: Callable[[str], bool] = lambda name: True) -> None:
        self._directory = directory
        self._wanted = wanted
        self._positions: dict[Path, _Position] = {}

    def files(self) -> list[Path]:
        """The logs that are there now."""
        return sorted(path for path in self._directory.glob("*.log") if self._wanted(path.stem))

    def last(self, lines: int) -> list[Line]:
        """The last lines of all logs together; `new` goes on from there."""
        latest: list[Line] = []
        for path in self.files():
            try:
                inode = path.stat().st_ino
            except FileNotFoundError:
                continue
            texts, offset = last_lines(path, lines + _TRACEBACK)
            position = self._positions[path] = _Position(inode, offset)
            latest += _lines(path, texts, position)[-lines:]
        return _merged(latest)[-lines:] if lines else []

    def new(self) -> list[Line]:
        """Whole lines that were written since."""
        return _merged(line for path in self.files() for line in self._new(path))

    def _new(self, path: Path) -> list[Line]:
        try:
            with path.open("rb") as file:
                inode, size = path.stat().st_ino, file.seek(0, 2)
                position = self._positions.get(path)
                # Another file of this name, or one that was cut off: what it holds now is new from its beginning.
                if position is None or position.inode != inode or size < position.offset:
                    position = self._positions[path] = _Position(inode, 0)
                file.seek(position.offset)
                content = file.read(_MOST)
        except FileNotFoundError:
            return []
        position.offset += len(content)
        # The last part is a line whose end is not written yet, or empty.
        *texts, position.rest = (position.rest + content).split(b"\n")
        return _lines(path, texts, position)


def _lines(path: Path, texts: Iterable[bytes], position: _Position) -> list[Line]:
    parsed = []
    for text in texts:
        # Lines without a time, as of a traceback, stay behind the line before them when logs are merged.
        position.stamp = stamp_of(text) or position.stamp
        parsed.append(Line(path.stem, position.stamp, text.decode("utf-8", "replace")))
    return parsed


def _merged(lines: Iterable[Line]) -> list[Line]:
    return sorted(lines, key=lambda line: line.stamp)  # stable: within one file and one time, order stays
