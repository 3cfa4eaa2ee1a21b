"""Where a pass over the data stands: enough to go on after any batch with exactly the batches that would have followed.

A position names the place in the log where the current window of rows begins, and how much of that window was taken.
Offsets count decompressed bytes (text) or rows (Parquet, readers of one's own), never blocks: neither the size of
blocks nor the number of threads has any part in it. The window's size, seed and order are kept as well, so that
a window begun under one setting is finished under the same, and no row is lost or seen twice when settings change.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

from clickline.errors import CheckpointError


@dataclass(frozen=True, slots=True)
class RowCounts:
    """What was read so far in a pass."""

    rows: int = 0
    bad: int = 0
    missing_dense: tuple[int, ...] = ()
    missing_slots: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class LogOffset:
    """A spot between two rows of the log. The default is the very beginning."""

    file: int = 0
    """Number of the file in the order of reading."""
    path: str = ""
    """The same file's path, to notice when the list of files has changed."""
    offset: int = 0
    """Where to read on: bytes of text after decompression, or rows."""
    line: int = 0
    """Lines before that offset."""
    skip: int = 0
    """Good rows after the offset that belong to earlier windows."""
    counts: RowCounts = RowCounts()
    """What was counted before the offset."""


@dataclass(frozen=True, slots=True)
class Position:
    """Where to go on after a batch."""

    epoch: int
    window: int
    """Number of the window within the epoch."""
    taken: int
    """Rows of the window that were handed out."""
    rows: int
    """Rows in a full window."""
    shuffled: bool
    seed: int
    place: LogOffset
    """Where the window begins."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values only, fit for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Position:
        try:
            place = _exact(LogOffset, values["place"])
            counts = _exact(RowCounts, place["counts"])
            counts = {name: tuple(item) if isinstance(item, list) else item for name, item in counts.items()}
            found = {**_exact(cls, values), "place": LogOffset(**{**place, "counts": RowCounts(**counts)})}
            return cls(**found)
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"This is no data position: {error}. Start without it, from the beginning."
            ) from error


def _exact(kind: type[Any], values: dict[str, Any]) -> dict[str, Any]:
    wanted = {item.name for item in fields(kind)}
    if set(values) != wanted:
        raise ValueError(f"{kind.__name__.lower()} must hold {sorted(wanted)} but holds {sorted(values)}")
    return values
