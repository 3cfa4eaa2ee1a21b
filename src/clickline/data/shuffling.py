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
from clickline.data.position import Place, Position
from clickline.data.report import Tally
from clickline.data.sources.text_blocks import Block
from clickline.errors import DataError

_UNSHUFFLED_ROWS = 8192


@dataclass(frozen=True, slots=True)
class Window:
    """Rows in the order of the log."""

    rows: Batch
    order: NDArray[np.int64] | None
    """In which to hand them out; None is as they are."""
    here: Position
    """Where the window begins, and what of it was handed out before."""
    after: Position
    """Where the next one begins."""

    def batches(self, size: int) -> Iterator[tuple[Batch, Position]]:
        rows, here = len(self.rows), self.here
        for first in range(here.taken, rows, size):
            last = min(first + size, rows)
            # The permuted copy is made batch by batch: a whole window's would take as much memory again.
            batch = self.rows.part(first, last) if self.order is None else self.rows.take(self.order[first:last])
            yield batch, replace(here, taken=last) if last < rows else self.after


def beginning(*, epoch: int, seed: int, batch_size: int, shuffle_rows: int) -> Position:
    """The first position of an epoch. A window is a multiple of a batch, so that only the last batch may be smaller."""
    shuffled = shuffle_rows > 0
    rows = -(-(shuffle_rows if shuffled else _UNSHUFFLED_ROWS) // batch_size) * batch_size
    return Position(epoch=epoch, window=0, taken=0, rows=rows, shuffled=shuffled, seed=seed, place=Place())


def windows(
    parsed: Iterator[tuple[Block, Parsed]], *, start: Position, then: Position, tally: Tally
) -> Iterator[Window]:
    """Gather parsed blocks into windows. The first goes by the settings in `start`, all others by those in `then`."""
    here, skip = start, start.place.skip
    parts: list[Batch] = []
    gathered = line = 0
    end = start.place
    for block, result in parsed:
        line = line if block.line is None else block.line
        place = Place(file=block.file, path=block.path, offset=block.offset, line=line, counts=tally.counts)
        _count(block, result, line=line, tally=tally)
        line += result.lines
        rows, used = _rows(result), min(skip, result.n)
        skip -= used
        while used < result.n:
            more = min(here.rows - gathered, result.n - used)
            parts.append(rows.part(used, used + more))
            used, gathered = used + more, gathered + more
            if gathered == here.rows:
                after = replace(then, window=here.window + 1, place=replace(place, skip=used))
                yield _window(parts, here=here, after=after)
                here, gathered = after, 0
        end = replace(place, skip=used)
    tally.check(end=True)
    if skip or gathered < here.taken:
        raise DataError(
            f"'{here.place.path}' has fewer rows than when reading stopped: it has changed since. "
            f"Restore it, or start without the checkpoint's position."
        )
    if gathered:
        yield _window(parts, here=here, after=replace(then, window=here.window + 1, place=end))


def permutation(*, seed: int, epoch: int, window: int, rows: int) -> NDArray[np.int64]:
    """An order of `rows` rows. Made from raw bits by sorting: numpy promises those to stay, its permutations not."""
    bits = np.random.PCG64(np.random.SeedSequence((seed, epoch, window)))
    return np.argsort(bits.random_raw(rows), kind="stable")


def _window(parts: list[Batch], *, here: Position, after: Position) -> Window:
    rows = join(parts)
    order = None
    if here.shuffled:
        order = permutation(seed=here.seed, epoch=here.epoch, window=here.window, rows=len(rows))
    return Window(rows=rows, order=order, here=here, after=after)


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


def _count(block: Block, result: Parsed, *, line: int, tally: Tally) -> None:
    tally.add(rows=result.n, bad=result.bad, missing_dense=result.missing_dense, missing_slots=result.missing_slots)
    unit: Literal["line", "row"] = "line" if isinstance(block.data, bytes) else "row"
    for number, reason in result.errors:
        tally.note(block.path, line + number, block.reasons.get(number, reason), origin=block.origin, unit=unit)
    tally.check()
