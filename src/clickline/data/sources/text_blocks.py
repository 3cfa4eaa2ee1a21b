"""Text files as blocks of whole lines: open, decompress, split at line ends.

One background thread runs this and does nothing else.
"""

from __future__ import annotations

import csv
from collections.abc import Generator, Iterable, Iterator
from itertools import chain
from typing import BinaryIO, cast

from clickline.config.data import Data
from clickline.data.position import LogOffset
from clickline.data.sources.compression import decompressed
from clickline.data.sources.files import File
from clickline.data.sources.log_block import WHOLE_FILE, LogBlock, Span
from clickline.data.sources.pipe_command import piped
from clickline.errors import DataError

# A binary file may have no newline at all: without a limit it would be gathered in memory as one line.
_LONGEST_LINE = 64 << 20


class Meter:
    """Counts the raw bytes that were read: with the files' sizes, this estimates the share of a pass that is done."""

    def __init__(self) -> None:
        self.read = 0

    def watching(self, stream: BinaryIO) -> BinaryIO:
        """The stream, with every read counted."""
        return cast(BinaryIO, _Watched(stream, self))


class _Watched:
    def __init__(self, stream: BinaryIO, meter: Meter) -> None:
        self._stream, self._meter = stream, meter

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self._meter.read += len(data)
        return data

    def seekable(self) -> bool:
        return self._stream.seekable()

    def seek(self, offset: int, whence: int = 0) -> int:
        place = self._stream.seek(offset, whence)
        self._meter.read = max(self._meter.read, place if whence == 0 else 0)
        return place


def text_blocks(
    file: File, *, start: LogOffset, data: Data, meter: Meter, span: Span = WHOLE_FILE
) -> Iterator[LogBlock]:
    """The blocks of a text file. A span may begin and end within a line: it has the lines that start inside it."""
    columns: tuple[str, ...] = ()
    begin, end = span
    offset, line, origin = start.offset, start.line, 0
    # An offset at which reading resumes is the start of a line; the beginning of a span may lie within one.
    inside = begin > offset
    if inside:
        offset, line = begin - 1, 0  # a line starts at `begin` if the byte before it is a newline
    with file.open() as raw:
        pieces: Iterator[bytes] = _content(meter.watching(raw), data=data, path=file.path, offset=offset)
        # The line at the beginning of a span belongs to the span before, unless it starts exactly there.
        if inside:
            offset, pieces = _from_next_line(pieces, offset=offset, end=end)
            origin = offset
        if end is not None:
            pieces = _before(pieces, offset=offset, end=end)
        if data.format == "csv" and offset == 0:
            columns, first_line, pieces = _columns(pieces, data=data, path=file.path)
            offset, line = len(first_line), int(bool(first_line))
        # Past the beginning, the columns are still those of the header, which is read once more.
        elif data.format == "csv":
            columns = header(file, data)
        # Only the first block knows its line; counting newlines here would cost as much as parsing.
        known: int | None = line
        for where, lines in split_at_lines(pieces, offset=offset, size=data.block_bytes, path=file.path):
            yield LogBlock(
                file=start.file, path=file.path, offset=where, line=known, columns=columns, data=lines, origin=origin
            )
            known = None


def _from_next_line(pieces: Iterator[bytes], *, offset: int, end: int | None) -> tuple[int, Iterator[bytes]]:
    """Where the first line starts that does so after the byte at `offset`, and all from there on."""
    for piece in pieces:
        newline = piece.find(b"\n")
        if newline >= 0:
            return offset + newline + 1, chain([piece[newline + 1 :]], pieces)
        offset += len(piece)
        if end is not None and offset >= end:
            break  # or a span within a very long line would cost as much as all of the line
    return offset, iter(())


def _before(pieces: Iterator[bytes], *, offset: int, end: int) -> Iterator[bytes]:
    """All lines that start before `end`. The last one ends after it, unless the byte before `end` is its newline."""
    if offset >= end:
        return
    for piece in pieces:
        # The search begins at byte end - 1: a newline there ends the last line that starts before `end`.
        newline = piece.find(b"\n", max(end - 1 - offset, 0))
        if newline >= 0:
            yield piece[: newline + 1]
            return
        yield piece
        offset += len(piece)


def split_at_lines(pieces: Iterable[bytes], *, offset: int, size: int, path: str) -> Iterator[tuple[int, bytes]]:
    """Runs of whole lines of about `size` bytes, each with its offset. The last line may lack its newline."""
    # A list, joined once per run: appending to bytes would copy a long line again with every piece.
    held: list[bytes] = []
    # Pieces are held until they have `size` bytes and a newline; then all up to the last newline is one run of lines.
    length, last, cut = 0, -1, 0  # `last` is the held piece with the last newline, `cut` the byte after it
    for piece in pieces:
        newline = piece.rfind(b"\n")
        if newline >= 0:
            last, cut = len(held), newline + 1
        held.append(piece)
        length += len(piece)
        if length >= size and last >= 0:
            lines = b"".join((*held[:last], held[last][:cut]))
            held = [held[last][cut:], *held[last + 1 :]]
            yield offset, lines
            # What is left has no newline: `last` was the last one.
            offset, length, last = offset + len(lines), length - len(lines), -1
            del lines
        elif length > _LONGEST_LINE:
            raise DataError(
                f"'{path}' has a line of more than {_LONGEST_LINE >> 20} MiB at byte {offset}: is this a text file?"
            )
    if length:
        yield offset, b"".join(held)


def header(file: File, data: Data) -> tuple[str, ...]:
    """The columns of a CSV file; none if it is empty."""
    with file.open() as raw:
        pieces = _content(raw, data=data, path=file.path)
        columns, _, _ = _columns(pieces, data=data, path=file.path)
        pieces.close()
    return columns


def _content(raw: BinaryIO, *, data: Data, path: str, offset: int = 0) -> Generator[bytes, None, None]:
    """The text of a file from `offset` on: decompressed, or as the job's command prints it."""
    if data.pipe_command:
        yield from piped(raw, command=data.pipe_command, path=path, offset=offset, piece=data.block_bytes)
    else:
        yield from decompressed(raw, path=path, offset=offset, piece=data.block_bytes)


def _columns(pieces: Iterator[bytes], *, data: Data, path: str) -> tuple[tuple[str, ...], bytes, Iterator[bytes]]:
    """Names of the columns, the header's bytes (none if it is not one), and the rest of the file."""
    head = b""
    for piece in pieces:
        head += piece
        if b"\n" in piece or len(head) > _LONGEST_LINE:
            break
    end = head.find(b"\n") + 1 or len(head)
    try:
        # utf-8-sig: a byte order mark would become part of the first column's name.
        line = head[:end].decode("utf-8-sig").rstrip("\r\n")
        names = next(csv.reader([line], delimiter=data.delimiter, strict=True), [])
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"'{path}' has no CSV header that can be read ({error}): is data.format right?") from error
    if not data.header:
        return tuple(str(place) for place in range(len(names))), b"", chain([head], pieces)
    return tuple(name.strip() for name in names), head[:end], chain([head[end:]], pieces)
