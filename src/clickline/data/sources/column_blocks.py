"""Files of columns as blocks: Parquet, and the tables that a custom reader makes of a file."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import BinaryIO, cast

import pyarrow as pa
import pyarrow.parquet as pq

from clickline.config.data import Data
from clickline.config.secrets.secret_references import resolve_within
from clickline.data.position import LogOffset
from clickline.data.sources.compression import Stream, decompressed
from clickline.data.sources.custom_reader import Reader
from clickline.data.sources.custom_reader_tables import ROWS_PER_TABLE, reasons_of
from clickline.data.sources.files import File
from clickline.data.sources.log_block import WHOLE_FILE, LogBlock, Span
from clickline.errors import ClicklineError, DataError, JobError
from clickline.plugins import load_class


def parquet_blocks(
    file: File,
    *,
    start: LogOffset,
    select_columns: Callable[[list[str]], list[str]],
    span: Span = WHOLE_FILE,
) -> Iterator[LogBlock]:
    """The blocks of a Parquet file, or of a span of its row groups. Row groups before `start` are not read.

    `select_columns` is given the names of all columns and returns those to load.
    """
    with file.open() as raw:
        # An empty file has no rows in every format; pyarrow would refuse it as Parquet.
        if raw.seek(0, io.SEEK_END) == 0:
            return
        raw.seek(0)
        try:
            content = pq.ParquetFile(raw)
            columns = select_columns(content.schema_arrow.names)
            first = 0
            groups = content.num_row_groups
            if (span[1] or span[0]) > groups:
                raise DataError(f"'{file.path}' has only {groups} row groups, not {span[1] or span[0]}: it has changed")
            # Groups before the span, or before the offset, are counted but not read.
            for group in range(groups if span[1] is None else span[1]):
                rows = content.metadata.row_group(group).num_rows
                if group >= span[0] and first + rows > start.offset:
                    # Row groups may be of any size: reading them in small batches keeps blocks, and so memory, bounded.
                    batches = content.iter_batches(ROWS_PER_TABLE, row_groups=[group], columns=columns)
                    yield from _from_offset(file, start, batches, first=first)
                first += rows
        except pa.ArrowException as error:
            raise DataError(f"'{file.path}' cannot be read as Parquet: {error}") from error
    _complete(file, start, first)


def parquet_columns(file: File) -> tuple[str, ...] | None:
    """The columns of a Parquet file; None if it is empty."""
    with file.open() as raw:
        # An empty file is a file without rows, which is allowed; pyarrow would refuse it as Parquet.
        if not raw.read(1):
            return None
        raw.seek(0)
        try:
            return tuple(pq.ParquetFile(raw).schema_arrow.names)
        except pa.ArrowException as error:
            raise DataError(f"cannot be read as Parquet: {error}") from error


def row_groups(file: File) -> list[int]:
    """The bytes of each row group of a Parquet file."""
    with file.open() as raw:
        try:
            content = pq.ParquetFile(raw).metadata
        except pa.ArrowException as error:
            raise DataError(f"'{file.path}' cannot be read as Parquet: {error}") from error
        groups = [content.row_group(number) for number in range(content.num_row_groups)]
        return [sum(group.column(c).total_compressed_size for c in range(group.num_columns)) for group in groups]


def custom_blocks(file: File, *, start: LogOffset, reader: Reader) -> Iterator[LogBlock]:
    """The blocks of a file that a custom reader understands. To resume at an offset, it reads all before it again."""
    rows = 0
    with file.open() as raw:
        stream = io.BufferedReader(Stream(decompressed(raw, path=file.path)))
        try:
            for table in reader.tables(cast(BinaryIO, stream), file.path):
                yield from _from_offset(file, start, iter([table]), first=rows)
                rows += table.num_rows
        # Errors of the storage are no fault of the reader: `File.open` makes them a DataError that names the path.
        except (ClicklineError, OSError):
            raise
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise DataError(
                f"{type(reader).__name__} failed on {file.path!r} after {rows} rows with {reason}; "
                "to have a row skipped that cannot be read, yield a RowError in its place"
            ) from error
    _complete(file, start, rows)


def load_reader(data: Data) -> Reader:
    """The reader that `data.format` names, constructed with `data.reader`."""
    kind = load_class(data.format, base=Reader, what="data.format")
    try:
        return kind(**{name: resolve_within(value) for name, value in data.reader.items()})
    except TypeError as error:
        raise JobError(f"data.reader does not fit {data.format}: {error}") from error


def _from_offset(file: File, start: LogOffset, tables: Iterator[pa.RecordBatch], *, first: int) -> Iterator[LogBlock]:
    """Blocks of the rows at and after `start`. `first` is the number of the tables' first row in the file."""
    for table in tables:
        rows = table.num_rows
        skipped = max(start.offset - first, 0)
        if skipped < rows:
            where = first + skipped
            yield LogBlock(
                file=start.file,
                path=file.path,
                offset=where,
                line=where,
                columns=(),
                data=table.slice(skipped),
                reasons=reasons_of(table, first=skipped),
            )
        first += rows


def _complete(file: File, start: LogOffset, rows: int) -> None:
    if rows < start.offset:
        raise DataError(
            f"'{file.path}' has only {rows} rows, but reading should resume at {start.offset}: it has changed since; "
            "restore it, or start without the checkpoint's position"
        )
