"""Readers of one's own: a class that turns a file of any format into rows, named in `data.format`.

    from clickline import Reader

    class Pipes(Reader):
        def rows(self, stream, path):
            for line in stream:
                label, user, ad = line.decode().rstrip().split("|")
                yield {"label": label, "user": user, "ad": ad}

`format: readers.py:Pipes` in the job is all it takes; columns are then named in `features` as for CSV. A row that
cannot be read is reported by yielding a RowError in its place: it is skipped, counted and shown with its number, as far
as `data.max_bad_rows` allows. So is a row with a value that does not fit its column, such as the label "x". An
exception ends the run. A reader that can make Arrow record batches itself implements `tables` instead, which is many
times faster.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import BinaryIO

import pyarrow as pa

from clickline.data.sources import custom_reader_tables
from clickline.data.sources.custom_reader_tables import TableColumns
from clickline.errors import DataError


@dataclass(frozen=True, slots=True)
class RowError:
    """What a reader yields in place of a row that it cannot read."""

    reason: str
    column: str | None = None
    """The column that is wrong, if it is one."""

    def __str__(self) -> str:
        return self.reason if self.column is None else f"column {self.column!r}: {self.reason}"


class Reader:
    """Base class. It is constructed with the keywords in `data.reader`, and must give the same rows each time."""

    def rows(self, stream: BinaryIO, path: str) -> Iterator[Mapping[str, object] | RowError]:
        """The rows of one file: column to value. A value is text, a number, None, or a list of those."""
        raise NotImplementedError(f"{type(self).__name__} must implement rows() or tables()")

    def tables(self, stream: BinaryIO, path: str) -> Iterator[pa.RecordBatch]:
        """The same, as Arrow record batches. `stream` is decompressed already."""
        rows, columns = iter(self.rows(stream, path)), TableColumns()
        done = 0
        while True:
            group: list[Mapping[str, object] | RowError] = []
            try:
                # `extend` keeps the rows that came before an exception, so these are still handed on.
                group.extend(islice(rows, custom_reader_tables.ROWS_PER_TABLE))
            except Exception:
                if group:
                    yield self._table(group, columns, first=done, path=path)  # what failed comes after these
                raise
            if not group:
                return
            yield self._table(group, columns, first=done, path=path)
            done += len(group)

    def _table(
        self, group: list[Mapping[str, object] | RowError], columns: TableColumns, *, first: int, path: str
    ) -> pa.RecordBatch:
        """Some rows as a batch. Row by row only where one is not a plain dict."""
        reasons: dict[int, str] = {}
        if set(map(type, group)) == {dict}:
            return columns.table(group, reasons)  # type: ignore[arg-type]
        rows: list[Mapping[str, object]] = []
        for number, row in enumerate(group):
            if isinstance(row, RowError):
                reasons[number] = str(row)
            elif not isinstance(row, Mapping):
                raise DataError(
                    f"{path!r}, row {first + number + 1}: {type(self).__name__}.rows gave {type(row).__name__}; a "
                    "mapping of column to value, or a RowError, was expected"
                )
            rows.append({} if isinstance(row, RowError) else row)
        return columns.table(rows, reasons)
