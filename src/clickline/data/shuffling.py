"""Windows: rows gathered in the order of the log, and the order in which they are handed out.

A window of rows is permuted as a whole, so a row moves by at most a window. The permutation follows from seed, epoch
and window number alone. Without shuffling there are windows as well, small ones, that keep their order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from clickline._native import Parsed
from clickline.data.batch import Batch, join
from clickline.data.position import LogOffset, Position
from clickline.data.report import RowCounter
from clickline.data.sources.log_block import LogBlock
from clickline.errors import DataError

_UNSHUFFLED_ROWS = 8192


@dataclass(frozen=True, slots=True)
class Window:
    """Rows in the order of the log, and the order in which they are handed out."""

    rows: Batch
    order: NDArray[np.int64] | None
    """A permutation of the rows; None is the order of the log."""
    begin: Position
    """Where the window begins, and how many of its rows were handed out before."""
    next_window: Position
    """Where the window after this one begins."""

    def batches(self, size: int) -> Iterator[tuple[Batch, Position]]:
        """The rows not yet handed out, in batches, each with the position at which reading resumes after it."""
        rows = len(self.rows)
        for first in range(self.begin.taken, rows, size):
            last = min(first + size, rows)
            # The permuted copy is made batch by batch: that of a whole window would take as much memory again.
            batch = self.rows.part(first, last) if self.order is None else self.rows.take(self.order[first:last])
            yield batch, replace(self.begin, taken=last) if last < rows else self.next_window


def first_position(*, epoch: int, seed: int, batch_size: int, shuffle_rows: int) -> Position:
    """The first position of an epoch. A window is a multiple of a batch, so that only the last batch may be smaller."""
    shuffled = shuffle_rows > 0
    rows = -(-(shuffle_rows if shuffled else _UNSHUFFLED_ROWS) // batch_size) * batch_size
    return Position(epoch=epoch, window=0, taken=0, rows=rows, shuffled=shuffled, seed=seed, place=LogOffset())


class WindowBuilder:
    """Gathers parsed blocks into windows.

    The first window has the size, seed and order that `start` names, which may be those of an earlier run; all windows
    after it have those of `settings`, which are today's.
    """

    def __init__(self, *, start: Position, settings: Position, counter: RowCounter, no_rows: str | None = None) -> None:
        """`no_rows` is the message of a DataError if there is not a single row; None accepts that."""
        self._start, self._settings, self._counter, self._no_rows = start, settings, counter, no_rows

    def windows(self, parsed: Iterator[tuple[LogBlock, Parsed]]) -> Iterator[Window]:
        """The windows, built as the blocks arrive. Counts rows, and raises if too many are malformed."""
        begin, skip = self._start, self._start.place.skip
        parts: list[Batch] = []  # of the window that is being built
        gathered = 0  # rows in `parts`
        line = 0
        end = self._start.place
        for block, result in parsed:
            # Only the first block of a stream knows its line; from there on, lines are counted.
            line = line if block.line is None else block.line
            # The counts are those before this block: a resume reads the block again and counts its rows then.
            block_start = LogOffset(
                file=block.file, path=block.path, offset=block.offset, line=line, counts=self._counter.counts
            )
            _count(block, result, line=line, counter=self._counter)
            line += result.lines
            # After a resume, the first rows belong to windows before this one: they are counted, then skipped.
            rows, used = _rows(result), min(skip, result.n)
            skip -= used
            # A block may end in the middle of a window, and a window in the middle of a block.
            while used < result.n:
                more = min(begin.rows - gathered, result.n - used)
                parts.append(rows.part(used, used + more))
                used, gathered = used + more, gathered + more
                if gathered == begin.rows:
                    # To resume at the next window, this block is read again and its first `used` rows are skipped.
                    following = self._following(begin, replace(block_start, skip=used))
                    yield _window(parts, begin=begin, next_window=following)
                    # Joining has emptied `parts`: it is ready for the next window.
                    begin, gathered = following, 0
            end = replace(block_start, skip=used)
        self._counter.check(end=True)
        # Rows that were handed out before the resume are missing: without this check a shortened file would look like
        # the end of the pass.
        if skip or gathered < begin.taken:
            raise DataError(
                f"{begin.place.path!r} has fewer rows than when reading stopped: it has changed since; "
                "restore it, or start without the checkpoint's position"
            )
        if gathered:
            yield _window(parts, begin=begin, next_window=self._following(begin, end))
        if self._no_rows is not None and self._counter.counts.rows == 0:
            raise DataError(self._no_rows)

    def _following(self, begin: Position, place: LogOffset) -> Position:
        return replace(self._settings, window=begin.window + 1, place=place)


def permutation(*, seed: int, epoch: int, window: int, rows: int) -> NDArray[np.int64]:
    """A permutation of `rows` rows, made by sorting raw bits: numpy promises never to change those, unlike its own
    permutations."""
    bits = np.random.PCG64(np.random.SeedSequence((seed, epoch, window)))
    return np.argsort(bits.random_raw(rows), kind="stable")


def _window(parts: list[Batch], *, begin: Position, next_window: Position) -> Window:
    rows = join(parts)
    order = None
    if begin.shuffled:
        order = permutation(seed=begin.seed, epoch=begin.epoch, window=begin.window, rows=len(rows))
    return Window(rows=rows, order=order, begin=begin, next_window=next_window)


def _rows(result: Parsed) -> Batch:
    return Batch(
        labels=result.labels,
        dense=result.dense,
        keys=result.keys,
        offsets=result.offsets,
        weights=result.weights,
        times=result.times,
        groups=result.groups,
    )


def _count(block: LogBlock, result: Parsed, *, line: int, counter: RowCounter) -> None:
    counter.add(rows=result.n, bad=result.bad, missing_dense=result.missing_dense, missing_slots=result.missing_slots)
    unit: Literal["line", "row"] = "line" if isinstance(block.data, bytes) else "row"
    for number, reason in result.errors:
        counter.note(block.path, line + number, block.reasons.get(number, reason), origin=block.origin, unit=unit)
    counter.check()
