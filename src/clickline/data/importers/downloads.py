"""Downloads as they come: a plain file, a compressed one, one inside a tar archive; read as blocks of whole lines.

Archives are never unpacked to disk: a member is found by the name it must have and read as a stream, so its path can
lead nowhere.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import PurePosixPath
from typing import IO

from clickline.data.sources.compression import Stream, decompressed
from clickline.data.sources.files import File, find
from clickline.data.sources.text_blocks import Meter, split_at_lines
from clickline.errors import DataError

Progress = Callable[[float | None], None]
"""Told the share of the source that was read so far, if that can be known."""
_BLOCK = 1 << 20
_TAR_HEADER = 512
_TAR_MAGIC = slice(257, 262)


def located(source: str, *, names: tuple[str, ...], expected: str) -> list[File]:
    """The file that `source` is, or those of a directory that are called as in `names`, in the order of `names`."""
    try:
        found = find([source], options={})
    except DataError as error:
        raise DataError(f"{error}; {expected}") from error
    if len(found) == 1:
        return found
    named = [file for name in names for file in found if PurePosixPath(file.path).name == name]
    if not named:
        raise DataError(f"'{source}' has {len(found)} files, but none is called {' or '.join(names)}; {expected}")
    return named


def blocks(file: File, *, member: str, expected: str, progress: Progress) -> Iterator[bytes]:
    """Runs of whole lines. If the file is a tar archive, of the file in it that is called `member`."""
    size, meter = file.size, Meter()
    with file.open() as raw:
        head, pieces = _headed(decompressed(meter.watching(raw), path=file.path))
        if head[_TAR_MAGIC] == b"ustar":
            pieces = _unpacked(pieces, path=file.path, member=member, expected=expected)
        for _, lines in split_at_lines(pieces, offset=0, size=_BLOCK, path=file.path):
            progress(meter.read / size if size else None)
            yield lines if lines.endswith(b"\n") else lines + b"\n"


def taken(lines: list[bytes], *, wanted: int | None, judge: Callable[[list[bytes], int], list[bytes]]) -> list[bytes]:
    """The first `wanted` rows among the lines. `judge` is given lines and how many came before, and returns the rows.

    It never sees a line after the last row that is wanted: mistakes after it do not concern the import.
    """
    if wanted is None:
        return judge(lines, 0)
    rows: list[bytes] = []
    place = 0
    while place < len(lines) and len(rows) < wanted:
        # Never more lines than rows are still wanted, so a part cannot reach beyond the last of them.
        part = lines[place : place + wanted - len(rows)]
        rows += judge(part, place)
        place += len(part)
    return rows


def _headed(pieces: Iterator[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """The first bytes, and all of them again."""
    head = b""
    for piece in pieces:
        head += piece
        if len(head) >= _TAR_HEADER:
            break
    return head, chain([head] if head else [], pieces)


def _unpacked(pieces: Iterator[bytes], *, path: str, member: str, expected: str) -> Iterator[bytes]:
    names = []
    try:
        # r| reads forward only: a decompressed stream cannot seek.
        with tarfile.open(fileobj=io.BufferedReader(Stream(pieces), _BLOCK), mode="r|") as archive:
            for entry in archive:
                names.append(PurePosixPath(entry.name).name)
                # A sparse file may claim to be larger than any disk; no dataset was published as one.
                if names[-1] == member and entry.isreg() and not entry.issparse():
                    stream = archive.extractfile(entry)
                    assert stream is not None  # noqa: S101  (only of directories and the like)
                    yield from _read(stream)
                    return
    except tarfile.TarError as error:
        raise DataError(f"'{path}' is a damaged tar archive ({error}): download it again") from error
    there = ", ".join(names[:8]) or "nothing"
    raise DataError(f"the archive {path!r} has no file called {member}; it has: {there}; {expected}")


def _read(stream: IO[bytes]) -> Iterator[bytes]:
    while piece := stream.read(_BLOCK):
        yield piece
