"""SequenceFiles of rows: read in chunks, written aside and renamed, so that half of one never has the name of a whole.

The native reader and writer do the work; docs/compatibility.md has the bytes.
"""

from __future__ import annotations

import contextlib
import os
import random
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from clickline._native import SequenceReader, SequenceWriter
from clickline.errors import DataError
from clickline.files.atomic import sync_directory

Chunk = tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint8]]
"""Keys, offsets (one more than keys), and the bytes of the values."""


def read_chunks(path: str | os.PathLike[str], *, records: int = 65_536) -> Iterator[Chunk]:
    """One file, or all of a directory in the order of their names. A directory must hold nothing but SequenceFiles."""
    for file in sequence_files(path):
        reader = SequenceReader(file)
        while (chunk := reader.read(records)) is not None:
            yield chunk


def sequence_files(path: str | os.PathLike[str]) -> list[Path]:
    """The files to read. Names that start with a dot or an underscore are markers of other tools."""
    directory = Path(path)
    if not directory.is_dir():
        return [directory]
    files = sorted(item for item in directory.iterdir() if not item.name.startswith((".", "_")))
    for item in files:
        if item.is_dir():
            raise DataError(f"'{directory}' must hold SequenceFiles only, but '{item.name}' is a directory")
    if not files:
        raise DataError(f"there is no SequenceFile in '{directory}'")
    return files


def read_all(path: str | os.PathLike[str]) -> Chunk:
    """All rows at once, in memory."""
    chunks = list(read_chunks(path))
    if not chunks:
        return np.zeros(0, np.uint64), np.zeros(1, np.uint64), np.zeros(0, np.uint8)
    starts = np.cumsum([0] + [len(values) for _, _, values in chunks[:-1]], dtype=np.uint64)
    # Each chunk's offsets begin at 0; the last one of each is the first of the next.
    offsets = [offsets[:-1] + start for (_, offsets, _), start in zip(chunks, starts, strict=True)]
    end = np.array([sum(len(values) for _, _, values in chunks)], np.uint64)
    return (
        np.concatenate([keys for keys, _, _ in chunks]),
        np.concatenate([*offsets, end]),
        np.concatenate([values for _, _, values in chunks]),
    )


@contextmanager
def writing(path: str | os.PathLike[str], *, seed: int | None = None) -> Iterator[SequenceWriter]:
    """A writer whose file has its name once the block is left without an error. A seed gives the same bytes again."""
    # The mark should not occur in a value by chance: it is random, unless the same bytes are wanted again.
    sync = secrets.token_bytes(16) if seed is None else random.Random(seed).randbytes(16)
    with aside(path) as temporary:
        writer = SequenceWriter(temporary, sync=sync)
        yield writer
        writer.finish()


@contextmanager
def aside(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A name to write under; renamed to `path` if all went well, removed if not."""
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"the directory of '{target}' cannot be made: {error.strerror}") from None
    # In the same directory, since a rename works within one file system only; readers skip names with a dot.
    temporary = target.parent / f".writing-{secrets.token_hex(8)}"
    try:
        yield temporary
        try:
            temporary.replace(target)
        except OSError as error:
            raise DataError(f"'{target}' cannot be put in place: {error.strerror}") from None
        sync_directory(target.parent)
    finally:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
