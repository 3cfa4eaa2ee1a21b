"""The report of a pass over the data: rows, malformed rows with examples, missing values; and their limit.

Malformed rows are skipped, counted and shown, up to the limit in `data.max_bad_rows`. Past it the run stops, because
a log in the wrong format would otherwise train a model on what little of it happens to parse.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from clickline.data.position import RowCounts
from clickline.errors import DataError

logger = logging.getLogger("clickline.data")

_EXAMPLES = 10
_SAMPLE = 1000


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that could not be read; `line` counts from 1 in the decompressed file."""

    path: str
    line: int
    reason: str
    origin: int = 0
    """The byte from which lines are counted: not the file's beginning where only a part of it is read."""
    unit: Literal["line", "row"] = "line"
    """What is counted: rows in files that have no lines."""

    def __str__(self) -> str:
        after = f" from byte {self.origin} on" if self.origin else ""
        return f"{self.path}, {self.unit} {self.line}{after}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Report:
    """A pass over the data so far. Rows are read ahead, so this may know of more than was trained on."""

    rows: int
    """Good rows."""
    bad: int
    """Rows that were skipped."""
    examples: tuple[BadRow, ...]
    """The first bad rows; after a resume, the first since then."""
    missing_dense: Mapping[str, int]
    """Rows without a value, by dense feature."""
    missing_slots: Mapping[str, int]
    """Rows without a value, by slot."""


class RowCounter:
    """Counts one pass, and stops it when too many rows are bad."""

    def __init__(self, *, limit: float, start: RowCounts, warn: bool) -> None:
        self._limit = limit
        self._rows, self._bad = start.rows, start.bad
        self._missing_dense = np.array(start.missing_dense, np.int64)
        self._missing_slots = np.array(start.missing_slots, np.int64)
        self._examples: list[BadRow] = []
        self._warn = warn
        self._logged = 0
        """Examples that were logged."""

    def add(self, *, rows: int, bad: int, missing_dense: NDArray[np.uint64], missing_slots: NDArray[np.uint64]) -> None:
        self._rows += rows
        self._bad += bad
        # New arrays each time: a report may be made from the old ones in another thread.
        self._missing_dense = _sum(self._missing_dense, missing_dense)
        self._missing_slots = _sum(self._missing_slots, missing_slots)

    def note(
        self, path: str, line: int, reason: str, *, origin: int = 0, unit: Literal["line", "row"] = "line"
    ) -> None:
        """Keep an example of a bad row, if there are not enough yet."""
        if len(self._examples) < _EXAMPLES:
            self._examples.append(BadRow(path, line, reason, origin, unit))

    def check(self, *, end: bool = False) -> None:
        """Raise if too many rows are bad. A share holds exactly at the end of the pass only."""
        seen = self._rows + self._bad
        share = self._limit < 1
        allowed = self._limit
        # Before the end, a share is taken of at least _SAMPLE rows: one bad row in the first ten is not 10 %.
        if share:
            allowed *= seen if end else max(seen, _SAMPLE)
        if share and not end:
            # Four deviations more than the share: a log that keeps within it must not fail for an unlucky beginning.
            allowed += 4 * math.sqrt(allowed)
        if self._bad <= allowed:
            self._log_examples()
            return
        limit = f"{self._limit:.4%} of the rows" if share else f"{self._limit:.0f} rows"
        lines = [f"  {example}" for example in self._examples[self._logged :]]
        if self._logged:
            lines = lines or [f"  {self._examples[-1]}"]
            lines = [f"  {self._logged} that the log has shown already, then:", *lines]
        listed = "\n".join(lines)
        raise DataError(
            f"{self._bad} of {seen} rows are malformed, more than data.max_bad_rows allows ({limit}):\n{listed}\n"
            "check that data.format fits these files, or raise data.max_bad_rows to skip such rows"
        )

    def _log_examples(self) -> None:
        """Log new examples. Each is shown once: here if the pass continues, else in the error that ends it."""
        if self._warn:
            for row in self._examples[self._logged :]:
                logger.warning("Skipped a malformed row: %s", row)
            self._logged = len(self._examples)

    @property
    def counts(self) -> RowCounts:
        dense, slots = tuple(self._missing_dense.tolist()), tuple(self._missing_slots.tolist())
        return RowCounts(rows=self._rows, bad=self._bad, missing_dense=dense, missing_slots=slots)

    def report(self, *, dense: Sequence[tuple[str, int]], slots: Sequence[str]) -> Report:
        """`dense` is name and size of each dense feature."""
        counts = self.counts
        missing, first = {}, 0
        for name, size in dense:
            missing[name] = max(counts.missing_dense[first : first + size], default=0)
            first += size
        return Report(
            rows=counts.rows,
            bad=counts.bad,
            examples=tuple(self._examples),
            missing_dense=missing,
            # Before the first block there are no counts at all, not even zeros.
            missing_slots=dict(zip(slots, counts.missing_slots or [0] * len(slots), strict=True)),
        )


def _sum(total: NDArray[np.int64], more: NDArray[np.uint64]) -> NDArray[np.int64]:
    return total + more.astype(np.int64) if len(total) else more.astype(np.int64)
