"""A dataset: the rows of some files, as batches.

The path of a row, in the order of the files to read:

    sources/block_source.py   files ── opened, decompressed, split into blocks
    block_pipeline.py         blocks ── parsed by native code in `data.threads` threads
    shuffling.py              rows ── gathered into windows, permuted, handed out as batches

Everything up to the window happens in the background; the consumer only picks a batch's rows out of the current
window. Between any two stages there is room for a few blocks, or for one window, so memory does not depend on how much
data there is. Batches depend on the files, the seed and the epoch, never on threads or timing.
"""

from __future__ import annotations

from collections.abc import Generator

from clickline.config.data import Data
from clickline.data.batch import Batch
from clickline.data.block_pipeline import BlockParser, BlockPipeline
from clickline.data.position import Position, RowCounts
from clickline.data.report import Report, RowCounter
from clickline.data.schema import Schema
from clickline.data.shuffling import WindowBuilder, first_position
from clickline.data.sources.block_source import BlockSource
from clickline.data.sources.files import find


class Dataset:
    """Rows of some files, as batches. Finding the files happens here; reading them, in `batches`."""

    def __init__(
        self, *, data: Data, schema: Schema, paths: list[str], batch_size: int, seed: int, shuffle: bool
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"argument 'batch_size' must be at least 1 but got {batch_size}")
        self._data = data
        self._schema = schema
        self._batch_size = batch_size
        self._seed = seed
        self._shuffle_rows = data.shuffle_rows if shuffle else 0
        self._files = find(paths, options=data.storage)
        self._source = BlockSource(data, schema)
        self._parser = BlockParser(schema)
        self._counter: RowCounter | None = None
        self._total: int | None = None

    @property
    def files(self) -> list[str]:
        """Paths in the order of reading."""
        return [file.path for file in self._files]

    @property
    def report(self) -> Report:
        """What the latest pass has found so far; a resumed pass counts on from where it resumed."""
        counter = self._counter or RowCounter(limit=0, start=RowCounts(), warn=False)
        return counter.report(dense=[(d.name, d.size) for d in self._schema.dense], slots=self._schema.slot_names)

    def batches(self, *, epoch: int, start: Position | None = None) -> Generator[tuple[Batch, Position], None, None]:
        """The batches of an epoch, each with the position at which reading resumes after it.

        A generator: closing it, or leaving the loop over it, stops the threads behind it. Batches must not be changed.
        """
        settings = first_position(
            epoch=epoch, seed=self._seed, batch_size=self._batch_size, shuffle_rows=self._shuffle_rows
        )
        start = start or settings
        if start.epoch != epoch:
            raise ValueError(f"argument 'start' must be a position in epoch {epoch} but is in epoch {start.epoch}")
        # Malformed rows are logged in the first pass only: all others would repeat it.
        counter = RowCounter(limit=self._data.max_bad_rows, start=start.place.counts, warn=self._counter is None)
        self._counter = counter
        self._source.meter.read = 0
        pipeline = BlockPipeline(
            self._source.blocks(self._files, start=start.place),
            parser=self._parser,
            window_builder=WindowBuilder(start=start, settings=settings, counter=counter, no_rows=self._no_rows()),
            batch_size=self._batch_size,
            threads=self._data.threads,
        )
        try:
            yield from pipeline
        finally:
            pipeline.close()

    def share(self, position: Position) -> float | None:
        """How much of the pass is done at a position, guessed by bytes until all have been read; None if unknown."""
        if self._total is None:
            sizes = [file.size for file in self._files]
            # One file of unknown size makes the total unknown: 0 then, and no share is estimated.
            self._total = sum(size or 0 for size in sizes) if all(sizes) else 0
        # Rows that were read per byte that was read, times the bytes of all files, is the estimated number of rows.
        rows = 0 if self._counter is None else self._counter.counts.rows
        if not self._total or not self._source.meter.read or not rows:
            return None
        done = position.place.counts.rows + position.place.skip + position.taken
        return min(done / (rows * max(self._total / self._source.meter.read, 1.0)), 1.0)

    def _no_rows(self) -> str:
        shown = ", ".join(self.files[:3]) + (", …" if len(self.files) > 3 else "")
        return f"there are no rows in the data: {shown} ({len(self.files)} files, all empty)"
