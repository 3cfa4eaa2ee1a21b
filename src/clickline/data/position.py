"""A position in a pass over the data: enough to resume after any batch with exactly the batches that would have
followed.

A position names the offset in the log where the current window of rows begins, and how many rows of that window were
taken. Offsets count decompressed bytes (text) or rows (Parquet, custom readers), never blocks: a position does not
depend on the size of blocks or the number of threads. The window's size, seed and order are kept as well, so that a
window begun under one setting is finished under the same, and no row is lost or seen twice when settings change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from clickline.errors import CheckpointError


@dataclass(frozen=True, slots=True)
class RowCounts:
    """Rows that were read so far in a pass, good and malformed, and missing values."""

    rows: int = 0
    bad: int = 0
    missing_dense: tuple[int, ...] = ()
    missing_slots: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class LogOffset:
    """An offset between two rows of the log. The default is the beginning of the log."""

    file: int = 0
    """Number of the file in the order of reading."""
    path: str = ""
    """The same file's path, to notice when the list of files has changed."""
    offset: int = 0
    """Where reading resumes: bytes of text after decompression, or rows."""
    line: int = 0
    """Lines before that offset."""
    skip: int = 0
    """Good rows after the offset that belong to earlier windows."""
    counts: RowCounts = RowCounts()
    """The rows before the offset."""


@dataclass(frozen=True, slots=True)
class Position:
    """Where reading resumes after a batch."""

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

    def to_dict(self) -> dict[str, object]:
        """As JSON holds it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Position:
        """From what `to_dict` returned; a CheckpointError if it is anything else."""
        try:
            position = _exact(cls, values, name="position")
            place = _exact(LogOffset, values["place"], name="place")
            counts = _exact(RowCounts, place["counts"], name="counts")
            # JSON returns tuples as lists, which would make a restored position unequal to the saved one.
            counts = {name: tuple(item) if isinstance(item, list) else item for name, item in counts.items()}
            return cls(**{**position, "place": LogOffset(**{**place, "counts": RowCounts(**counts)})})
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"not a position in the data: {error}; start without it, from the beginning"
            ) from error


def _exact(kind: type[Any], values: Mapping[str, Any], *, name: str) -> dict[str, Any]:
    """The values, if their keys are exactly the fields of `kind`."""
    wanted = {item.name for item in fields(kind)}
    if set(values) != wanted:
        raise ValueError(f"{name} must hold {sorted(wanted)} but holds {sorted(values)}")
    return dict(values)
