"""A block of the log: some neighbouring lines or rows of one file, not yet parsed.

Blocks exist for the sake of speed only: which rows there are, and in which order, does not depend on where one block
ends and the next begins.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Span = tuple[int, int | None]
"""Begin and end of a part of a file: bytes of text, or row groups of Parquet. None is the end of the file."""
WHOLE_FILE: Span = (0, None)


@dataclass(frozen=True, slots=True)
class LogBlock:
    """A run of lines or rows of one file, yet to be parsed."""

    file: int
    """Number of the file in the order of reading."""
    path: str
    offset: int
    """Where the block starts: decompressed bytes, or rows."""
    line: int | None
    """Lines before the block, if known: only at the beginning of a stream. Later blocks count on from there."""
    columns: tuple[str, ...]
    """CSV: the file's columns. Empty for other formats."""
    data: object
    """Bytes of text, or a pyarrow.RecordBatch."""
    origin: int = 0
    """The byte from which lines are counted, if the number of lines before it is unknown."""
    reasons: Mapping[int, str] = field(default_factory=dict)
    """Why a custom reader could not read a row, by the row's number in the block, counted from 1."""
