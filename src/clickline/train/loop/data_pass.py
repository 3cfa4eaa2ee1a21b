"""A pass over the training data: the rest of one epoch, as batches.

One process reads files in windows (DatasetPass). Ranks read pieces, and so does one process that resumes in an epoch
which ranks or parameter servers have begun (PiecePass). Both keep the run's state up to date: after each step it says
where to resume.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Generic, Protocol, TypeVar

from clickline.config import Job
from clickline.data.batch import Batch
from clickline.data.dataset import Dataset
from clickline.data.position import Position
from clickline.data.schema import Schema
from clickline.errors import DataError
from clickline.train.loop.piece_share import PieceShare, Ranks
from clickline.train.loop.training_state import TrainingState
from clickline.train.monitoring.piece_progress import Turn

Mark = TypeVar("Mark")


class DataPass(Protocol, Generic[Mark]):
    """What the training loop needs of a pass. A mark says where in the data a batch is from."""

    def batches(self) -> Generator[tuple[Batch, Mark], None, None]:
        """The batches that are left of the epoch. Closing the generator stops the threads behind it."""

    def trained(self, batch: Batch, mark: Mark) -> None:
        """Note in the run's state that a batch is in the model."""

    def share(self) -> float | None:
        """The share of the epoch that is done; None if unknown."""

    def finish(self) -> None:
        """Called after the last batch of the epoch."""


class DatasetPass:
    """The rest of an epoch in one process, shuffled across files."""

    def __init__(self, *, job: Job, schema: Schema, state: TrainingState) -> None:
        self._state = state
        self._dataset = Dataset(
            data=job.data,
            schema=schema,
            paths=job.data.train,
            batch_size=job.train.batch_size,
            seed=job.seed,
            shuffle=True,
        )

    def batches(self) -> Generator[tuple[Batch, Position], None, None]:
        position = self._state.position
        return self._dataset.batches(epoch=position.epoch, start=position.position)

    def trained(self, batch: Batch, mark: Position) -> None:
        self._state.advance(rows=len(batch), position=mark)

    def share(self) -> float | None:
        by_rows, position = self._state.share_by_rows(), self._state.position.position
        if by_rows is not None or position is None:
            return by_rows
        return self._dataset.share(position)  # estimated by bytes

    def finish(self) -> None:
        """The state's position is reset where the epoch ends."""


class PiecePass:
    """The rest of an epoch in pieces: those of this rank, or all of them in one process."""

    def __init__(self, *, job: Job, schema: Schema, state: TrainingState, ranks: Ranks) -> None:
        self._state = state
        self._fresh = state.pieces is None
        self._steps = 0
        self._paths = job.data.train
        self._pieces = PieceShare(
            job=job,
            schema=schema,
            paths=job.data.train,
            batch_size=job.train.batch_size,
            shuffle=True,
            ranks=ranks,
            progress=state.pieces,
        )

    @property
    def pieces(self) -> int:
        """Pieces of all ranks together."""
        return self._pieces.pieces

    def batches(self) -> Generator[tuple[Batch, Turn], None, None]:
        return self._pieces.turns(epoch=self._state.position.epoch)

    def trained(self, batch: Batch, mark: Turn) -> None:
        self._steps += 1
        # From the first step on, not before: until then the epoch counts as not begun.
        self._state.pieces = self._pieces.progress
        self._pieces.progress.heed(mark, own=self._pieces.own)
        self._state.advance(rows=mark.rows)
        self._state.own_rows += len(batch)
        # The interval counts this rank's rows; its rate is that of all ranks.
        self._state.interval.timed_rows += mark.rows - len(batch)

    def share(self) -> float | None:
        by_rows = self._state.share_by_rows()
        return self._pieces.share if by_rows is None else by_rows

    def finish(self) -> None:
        # A resumed epoch may have no rows left; one that begins here must have some.
        if self._fresh and not self._steps:
            raise DataError(f"there are no rows in the data: {', '.join(self._paths[:3])}")
        self._state.pieces = None


AnyPass = DataPass[Any]
