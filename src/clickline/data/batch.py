"""Rows as arrays: what parsers make, what shuffling permutes, what a training step eats."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Batch:
    """Some rows. Keys are row-major: those of row 0's first slot, of its second slot, …, then row 1's."""

    labels: NDArray[np.float32]
    """[rows, labels]"""
    dense: NDArray[np.float32]
    """[rows, dense features]"""
    keys: NDArray[np.uint64]
    """One or more for every row and slot."""
    offsets: NDArray[np.int64] | None = None
    """Where each (row, slot) starts in `keys`, plus the end; None when each has exactly one."""
    weights: NDArray[np.float32] | None = None
    times: NDArray[np.int64] | None = None
    groups: NDArray[np.uint64] | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: NDArray[np.int64]) -> Batch:
        """Copies of the rows with these numbers, in their order."""
        if self.offsets is None:
            keys, offsets = self._by_row(self.keys).take(rows, axis=0).reshape(-1), None
        else:
            keys, offsets = _take_ragged(self.keys, self._by_row(self.offsets[:-1]), self.offsets, rows)
        return self._with(keys, offsets, lambda column: column.take(rows, axis=0))

    def part(self, first: int, last: int) -> Batch:
        """Rows first to last - 1, as views of the same memory wherever that is possible."""
        offsets = None
        if self.offsets is None:
            keys = self._by_row(self.keys)[first:last].reshape(-1)
        else:
            slots = self._per_row(self.offsets[:-1])
            offsets = self.offsets[first * slots : last * slots + 1]
            keys = self.keys[offsets[0] : offsets[-1]]
            # Every (row, slot) has at least one key: if there are no more than that, offsets are not needed.
            offsets = None if len(keys) == len(offsets) - 1 else offsets - offsets[0]
        return self._with(keys, offsets, lambda column: column[first:last])

    def _per_row(self, values: NDArray[Any]) -> int:
        # A batch without rows has no keys either: any divisor but 0 is right.
        return len(values) // max(len(self), 1)

    def _by_row(self, values: NDArray[Any]) -> NDArray[Any]:
        return values.reshape(len(self), self._per_row(values))

    def _with(
        self,
        keys: NDArray[np.uint64],
        offsets: NDArray[np.int64] | None,
        pick: Callable[[NDArray[Any]], NDArray[Any]],
    ) -> Batch:
        return Batch(
            labels=pick(self.labels),
            dense=pick(self.dense),
            keys=keys,
            offsets=offsets,
            weights=None if self.weights is None else pick(self.weights),
            times=None if self.times is None else pick(self.times),
            groups=None if self.groups is None else pick(self.groups),
        )


def _take_ragged(
    keys: NDArray[np.uint64], starts: NDArray[np.int64], offsets: NDArray[np.int64], rows: NDArray[np.int64]
) -> tuple[NDArray[np.uint64], NDArray[np.int64] | None]:
    """`starts` is `offsets` by row and slot. A row's keys lie together, so whole rows move, and no loop is needed."""
    slots = starts.shape[1]
    # Keys of row r are keys[offsets[r * slots] : offsets[(r + 1) * slots]].
    first = offsets[rows * slots]
    ends = np.cumsum(offsets[(rows + 1) * slots] - first)
    total = int(ends[-1]) if len(ends) else 0
    # shift: how far each row's keys move to their new place.
    begins = np.concatenate((np.zeros(1, np.int64), ends[:-1]))
    shift = first - begins
    source = np.arange(total)
    source += np.repeat(shift, ends - begins)
    if total == len(rows) * slots:  # every (row, slot) has at least one key, so here each has exactly one
        return keys.take(source), None
    moved = np.empty(len(rows) * slots + 1, np.int64)
    np.subtract(starts.take(rows, axis=0), shift[:, None], out=moved[:-1].reshape(len(rows), slots))
    moved[-1] = total
    return keys.take(source), moved


def join(parts: list[Batch]) -> Batch:
    """One batch of all the rows. Empties `parts` on the way, so that memory holds the rows once, not twice."""
    if len(parts) == 1:
        return parts.pop()
    rows = sum(len(part) for part in parts)
    first = parts[0]
    # Memory for all rows is taken once, then the parts are copied in and dropped one after the other.
    joined = first._with(
        np.empty(sum(len(part.keys) for part in parts), np.uint64),
        _offsets(parts),
        lambda column: np.empty((rows, *column.shape[1:]), column.dtype),
    )
    row = key = 0
    for number, part in enumerate(parts):
        parts[number] = first  # lets go of this one
        joined.keys[key : key + len(part.keys)] = part.keys
        for name in ("labels", "dense", "weights", "times", "groups"):
            column = getattr(part, name)
            if column is not None:
                getattr(joined, name)[row : row + len(part)] = column
        row, key = row + len(part), key + len(part.keys)
    parts.clear()
    return joined


def _offsets(parts: list[Batch]) -> NDArray[np.int64] | None:
    if all(part.offsets is None for part in parts):
        return None
    pieces, key = [], 0
    for part in parts:
        # A part with one key each has no offsets: there they are 0, 1, 2, …
        pieces.append((np.arange(len(part.keys)) if part.offsets is None else part.offsets[:-1]) + key)
        key += len(part.keys)
    pieces.append(np.array([key]))
    return np.concatenate(pieces)
