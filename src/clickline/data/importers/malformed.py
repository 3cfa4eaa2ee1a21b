"""Lines of a download that cannot be used: counted, the first one shown, and too many of them an error."""

from __future__ import annotations

from clickline.data.report import BadRow
from clickline.errors import DataError

_ALLOWED = 0.001
_SAMPLE = 100
"""Bad lines beyond the share before an import stops halfway: the beginning of a file may be worse than the rest."""


class Malformed:
    """The bad lines of one file."""

    def __init__(self, *, path: str, expected: str) -> None:
        self.count = 0
        self.first: BadRow | None = None
        self._path, self._expected = path, expected

    def add(self, line: int, reason: str) -> None:
        """`line` counts from 1."""
        self.count += 1
        if self.first is None:
            self.first = BadRow(self._path, line, reason)

    def check(self, rows: int, *, end: bool = False) -> None:
        """Raise if there are too many for this number of good rows."""
        seen = rows + self.count
        if self.count > _ALLOWED * seen + (0 if end else _SAMPLE):
            raise DataError(
                f"{self.count:,} of {seen:,} lines of '{self._path}' are malformed, more than {_ALLOWED:.1%}; "
                f"the first is line {self.first.line if self.first else 0}: {self.first.reason if self.first else ''}; "
                f"{self._expected}"
            )
