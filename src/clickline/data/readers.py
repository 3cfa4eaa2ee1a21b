"""Readers of one's own: a class that turns a file of any format into rows, named in `data.format`.

    from clickline.data.readers import Reader

    class Pipes(Reader):
        def rows(self, stream, path):
            for line in stream:
                label, user, ad = line.decode().rstrip().split("|")
                yield {"label": label, "user": user, "ad": ad}

`format: readers.py:Pipes` in the job is all it takes; columns are then named in `features` as for CSV. A reader that
can make Arrow record batches itself implements `tables` instead, which is many times faster.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, BinaryIO

import pyarrow as pa

ROWS_PER_TABLE = 4096


class Reader:
    """Base class. It is constructed with the keywords in `data.reader`, and must give the same rows each time."""

    def rows(self, stream: BinaryIO, path: str) -> Iterator[Mapping[str, object]]:
        """The rows of one file: column to value. A value is text, a number, None, or a list of those."""
        raise NotImplementedError(f"{type(self).__name__} must implement rows() or tables().")

    def tables(self, stream: BinaryIO, path: str) -> Iterator[pa.RecordBatch]:
        """The same, as Arrow record batches. `stream` is decompressed already."""
        rows = iter(self.rows(stream, path))
        while group := list(islice(rows, ROWS_PER_TABLE)):
            # Not from_pylist: it takes the first row's columns for those of all.
            names = dict.fromkeys(name for row in group for name in row)
            columns: dict[str, list[Any]] = {name: [row.get(name) for row in group] for name in names}
            yield pa.RecordBatch.from_pydict(columns)
