"""Decompression while reading. The format is recognised by the first bytes, since names of logs are unreliable.

gzip and zstd files may consist of several members, as `cat a.gz b.gz` makes them. A file that ends in the middle of one
is an error: silently short epochs are worse than none. Output comes in bounded pieces, however well the input shrank.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterator
from typing import BinaryIO

from clickline.errors import DataError

_PIECE = 1 << 18
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_ZSTD_SKIPPABLE = b"\x2a\x4d\x18"


def decompressed(raw: BinaryIO, *, path: str, offset: int = 0, piece: int = _PIECE) -> Iterator[bytes]:
    """The content of `raw` from `offset` on (counted after decompression), in pieces of at most `piece` bytes."""
    size = min(piece, _PIECE)
    head = _read(raw, 4)
    kind = _kind(head)
    if kind == "gzip":
        pieces = _gzip(head, raw, path, size)
    elif kind == "zstd":
        pieces = _zstd(head, raw, path, size)
    else:
        pieces, offset = _plain(head, raw, offset, size)
    # Compressed data cannot be entered in the middle: what comes before the offset is decompressed and dropped.
    seen = 0
    for data in pieces:
        before, seen = seen, seen + len(data)
        if seen > offset:
            yield data[max(offset - before, 0) :]
    if seen < offset:
        raise DataError(
            f"'{path}' has only {seen} bytes, but reading should resume at {offset}: it has changed since; "
            "restore it, or start without the checkpoint's position"
        )


def is_compressed(raw: BinaryIO) -> bool:
    """Whether a file is one to decompress. Reads its first bytes."""
    return _kind(_read(raw, 4)) != "plain"


class Stream(io.RawIOBase):
    """Pieces of bytes as a file object, for readers that want one. Wrap it in io.BufferedReader."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        # 0 bytes mean the end of the file to the caller, so empty pieces are passed over.
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._rest = memoryview(piece)
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count


def _kind(head: bytes) -> str:
    if head.startswith(_GZIP):
        return "gzip"
    # zstd files may begin with a skippable frame: 0x184D2A50 to 0x184D2A5F, little-endian.
    return "zstd" if head == _ZSTD or (head[1:] == _ZSTD_SKIPPABLE and head[0] >> 4 == 5) else "plain"


def _read(raw: BinaryIO, size: int) -> bytes:
    """Up to `size` bytes; fewer only at the end of the file."""
    data = raw.read(size)
    while 0 < len(data) < size and (more := raw.read(size - len(data))):
        data += more
    return data


def _plain(head: bytes, raw: BinaryIO, offset: int, size: int) -> tuple[Iterator[bytes], int]:
    """The pieces, and how much of them is yet to be skipped."""

    def pieces(data: bytes) -> Iterator[bytes]:
        while data:
            yield data
            data = raw.read(size)

    # Never seek past the end: reading there returns nothing, as at the proper end of a file.
    if offset > len(head) and raw.seekable() and raw.seek(0, io.SEEK_END) >= offset:
        raw.seek(offset)
        return pieces(raw.read(size)), 0
    # The file is too short: it is read from after the head to its end, so that the caller can report its real size.
    if offset > len(head) and raw.seekable():
        raw.seek(len(head))
    return pieces(head), offset


def _gzip(head: bytes, raw: BinaryIO, path: str, size: int) -> Iterator[bytes]:
    # A gzip file is a sequence of members, each of which is decompressed by an object of its own.
    data, read = head, len(head)
    # wbits 31: a gzip header and checksum, and the largest window (16 + 15).
    member = zlib.decompressobj(wbits=31)
    inside = False
    while True:
        if not data:
            data = raw.read(size)
            read += len(data)
            if not data and inside:
                raise _truncated(path, "gzip", read)
            if not data:
                return
        if not inside:
            data = data.lstrip(b"\0")  # tapes and some tools pad with zeros; gzip allows it
            if not data:
                continue
            # The two bytes that begin a member may be in two reads.
            if len(data) == 1:
                data += raw.read(1)
                read += len(data) - 1
            if not data.startswith(_GZIP):
                raise DataError(
                    f"'{path}' has something that is not gzip after a gzip member, near byte {read - len(data)}; "
                    "the file is damaged: copy or write it again"
                )
            inside = True
        try:
            piece = member.decompress(data, size)
        except zlib.error as error:
            raise _damaged(path, "gzip", read - len(data), error) from error
        if piece:
            yield piece
        # At most `size` bytes come out at a time, so that a small file cannot fill the memory.
        data = member.unconsumed_tail
        if member.eof:
            data, member, inside = member.unused_data, zlib.decompressobj(wbits=31), False


def _zstd(head: bytes, raw: BinaryIO, path: str, size: int) -> Iterator[bytes]:
    # pyarrow's stream, because zstandard's own readers take a truncated frame for the end of the file.
    import pyarrow as pa

    prefixed = _Prefixed(head, raw)
    stream = pa.CompressedInputStream(pa.PythonFile(prefixed, mode="r"), "zstd")
    while True:
        try:
            piece = stream.read(size)
        except OSError as error:
            if "Truncated" in str(error):
                raise _truncated(path, "zstd", prefixed.count) from error
            if "ZSTD" in str(error):
                raise _damaged(path, "zstd", prefixed.count, error) from error
            raise
        if not piece:
            return
        yield piece


class _Prefixed(io.RawIOBase):
    """A stream whose first bytes were read already, and that counts. Closing it leaves the stream below open."""

    def __init__(self, head: bytes, raw: BinaryIO) -> None:
        self._head, self._raw, self.count = head, raw, 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data, self._head = (self._head, b"") if self._head else (self._raw.read(size), b"")
        self.count += len(data)
        return data


def _truncated(path: str, kind: str, offset: int) -> DataError:
    return DataError(
        f"'{path}' is truncated: its {kind} data breaks off at byte {offset}; copy or write the file again; "
        "if it is still being written, rename it into place when it is complete"
    )


def _damaged(path: str, kind: str, offset: int, error: Exception) -> DataError:
    return DataError(f"'{path}' is damaged: bad {kind} data near byte {offset} ({error}); copy or write it again")
