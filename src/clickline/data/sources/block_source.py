"""The files of a job as a stream of blocks, whatever their format.

This is the one place that knows which reader belongs to which format. Reading happens in the thread that iterates over
the blocks, which in training is a background thread (prefetch.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import PurePosixPath

from clickline.config.data import Data
from clickline.data.position import LogOffset
from clickline.data.schema import Schema
from clickline.data.sources.files import File
from clickline.data.sources.log_block import WHOLE_FILE, LogBlock, Span
from clickline.data.sources.text_blocks import Meter, text_blocks
from clickline.errors import DataError

TEXT_FORMATS = ("criteo", "slots", "elasticctr", "csv")


class BlockSource:
    """Reads files of the job's format as blocks, or one span of each file if the format can be read in parts."""

    def __init__(
        self,
        data: Data,
        schema: Schema,
        *,
        span: Span = WHOLE_FILE,
        select_columns: Callable[[list[str]], list[str]] | None = None,
    ) -> None:
        """`select_columns` picks the columns of a Parquet file to load; without it, those that the schema uses."""
        self._data = data
        self._span = span
        self._select_columns = select_columns or schema.columns_of
        self._reader = None
        self.meter = Meter()
        """Counts the bytes of text that were read."""
        if data.format not in (*TEXT_FORMATS, "parquet"):
            if span != WHOLE_FILE:
                raise ValueError(f"format {data.format!r} is read file by file, but the span {span} was asked for")
            from clickline.data.sources.column_blocks import load_reader

            self._reader = load_reader(data)  # now, so that a reader that cannot be loaded is reported before training

    def blocks(self, files: list[File], *, start: LogOffset) -> Iterator[LogBlock]:
        """The blocks of all files, from an offset on."""
        if start.path:
            check_same_file(files, start)
        for number in range(start.file, len(files)):
            file_start = start if number == start.file else LogOffset(file=number)
            yield from self.file_blocks(files[number], start=file_start)

    def file_blocks(self, file: File, *, start: LogOffset) -> Iterator[LogBlock]:
        """The blocks of one file, from an offset on."""
        if self._data.format in TEXT_FORMATS:
            return text_blocks(file, start=start, data=self._data, meter=self.meter, span=self._span)
        from clickline.data.sources.column_blocks import custom_blocks, parquet_blocks

        if self._reader is None:
            return parquet_blocks(file, start=start, select_columns=self._select_columns, span=self._span)
        return custom_blocks(file, start=start, reader=self._reader)


def check_same_file(files: list[File], start: LogOffset) -> None:
    """Raise if the file at which reading should resume is not the one it was."""
    path = files[start.file].path if start.file < len(files) else "nothing"
    # Names are compared, not paths: the same data may be mounted in another directory today.
    if PurePosixPath(path).name != PurePosixPath(start.path).name:
        raise DataError(
            f"reading should resume in {start.path!r}, file number {start.file + 1}, but that is now {path!r}: "
            f"the list of files has changed; restore it, or start without the checkpoint's position"
        )
