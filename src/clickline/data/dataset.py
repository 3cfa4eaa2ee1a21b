"""The way of the rows: files, blocks, parsed blocks, windows, batches.

    files ── one thread: open, decompress, cut ── `data.threads` threads: parse ── one thread: gather windows ── you

Everything up to the window happens in the background; the consumer only picks a batch's rows out of the current
window. Between any two stages there is room for a few blocks, or for one window, so memory does not depend on how much
data there is. Batches depend on the files, the seed and the epoch, never on threads or timing.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from functools import partial

from clickline._native import Parsed
from clickline.config.data import Data
from clickline.data.batch import Batch
from clickline.data.block_pipeline import Parsing, Reading, way_of_opening
from clickline.data.position import Counts, Position
from clickline.data.report import Report, Tally
from clickline.data.schema import Schema
from clickline.data.shuffling import Window, beginning, windows
from clickline.data.sources.files import find
from clickline.data.sources.text_blocks import Block, Meter, blocks
from clickline.errors import DataError


class Dataset:
    """Rows of some files, as batches. Finding the files happens here; reading them, in `batches`."""

    def __init__(
        self, *, data: Data, schema: Schema, paths: list[str], batch_size: int, seed: int, shuffle: bool
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"Argument 'batch_size' must be at least 1 but got {batch_size}.")
        self._data = data
        self._schema = schema
        self._batch_size = batch_size
        self._seed = seed
        self._shuffle_rows = data.shuffle_rows if shuffle else 0
        self._files = find(paths, options=data.storage)
        self._meter = Meter()
        self._opened = way_of_opening(data, schema, meter=self._meter)
        self._parse = Parsing(schema)
        self._tally: Tally | None = None
        self._total: int | None = None

    @property
    def files(self) -> list[str]:
        """Paths in the order of reading."""
        return [file.path for file in self._files]

    @property
    def report(self) -> Report:
        """What the latest pass has found so far; a resumed pass counts on from where it resumed."""
        tally = self._tally or Tally(limit=0, start=Counts(), warn=False)
        return tally.report(dense=[(d.name, d.size) for d in self._schema.dense], slots=self._schema.slot_names)

    def batches(self, *, epoch: int, start: Position | None = None) -> Generator[tuple[Batch, Position], None, None]:
        """The batches of an epoch, each with the position from which to go on after it.

        A generator: closing it, or leaving the loop over it, stops the threads behind it. Batches must not be changed.
        """
        then = beginning(epoch=epoch, seed=self._seed, batch_size=self._batch_size, shuffle_rows=self._shuffle_rows)
        start = start or then
        if start.epoch != epoch:
            raise ValueError(f"Argument 'start' must be a position in epoch {epoch} but is in epoch {start.epoch}.")
        tally = Tally(limit=self._data.max_bad_rows, start=start.place.counts, warn=self._tally is None)
        self._tally = tally
        self._meter.read = 0
        reading = Reading(
            blocks(self._files, start=start.place, opened=self._opened),
            parse=self._parse,
            gather=partial(self._windows, start=start, then=then, tally=tally),
            batch_size=self._batch_size,
            threads=self._data.threads,
        )
        try:
            yield from reading
        finally:
            reading.close()

    def share(self, position: Position) -> float | None:
        """How much of the pass is done at a position, guessed by bytes until all have been read; None if unknown."""
        if self._total is None:
            sizes = [file.size for file in self._files]
            self._total = sum(size or 0 for size in sizes) if all(sizes) else 0
        rows = 0 if self._tally is None else self._tally.counts.rows
        if not self._total or not self._meter.read or not rows:
            return None
        done = position.place.counts.rows + position.place.skip + position.taken
        return min(done / (rows * max(self._total / self._meter.read, 1.0)), 1.0)

    def _windows(
        self, parsed: Iterator[tuple[Block, Parsed]], *, start: Position, then: Position, tally: Tally
    ) -> Iterator[Window]:
        yield from windows(parsed, start=start, then=then, tally=tally)
        if tally.counts.rows == 0:
            shown = ", ".join(self.files[:3]) + (", …" if len(self.files) > 3 else "")
            raise DataError(f"There are no rows in the data: {shown} ({len(self.files)} files, all empty).")
