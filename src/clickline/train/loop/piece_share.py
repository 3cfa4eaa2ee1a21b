"""The share of each rank in the data: pieces, assigned to ranks in a fixed order.

Rank r of k reads the pieces r, r + k, … in this order, in full batches that do not mind where a piece ends. Ranks have
different numbers of rows; those that are through take part with empty batches until all are. How far each piece was
read goes into a checkpoint, so that any number of ranks can resume: they split the data as the ranks before them did
until the epoch ends.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from clickline.config import Job
from clickline.data.batch import Batch, join
from clickline.data.leasing.pieces import Piece, changed_data, piece_batches, split_into_pieces
from clickline.data.schema import Schema
from clickline.data.sources.files import find
from clickline.errors import CheckpointError
from clickline.train.monitoring.piece_progress import PieceProgress, Turn

PIECES_PER_RANK = 8
_SMALLEST, _LARGEST = 1 << 16, 64 << 20


class Ranks(Protocol):
    """The ranks that read together: which of them this process is, and how they exchange numbers."""

    @property
    def rank(self) -> int: ...

    @property
    def size(self) -> int: ...

    def all_numbers(self, numbers: Sequence[int]) -> NDArray[np.int64]: ...


class SingleRank:
    """One process that reads all pieces: the rest of an epoch that several have begun."""

    rank, size = 0, 1

    def all_numbers(self, numbers: Sequence[int]) -> NDArray[np.int64]:
        return np.array([numbers], np.int64)


class PieceShare:
    """One rank's share of the pieces of some files."""

    def __init__(
        self,
        *,
        job: Job,
        schema: Schema,
        paths: list[str],
        batch_size: int,
        shuffle: bool,
        ranks: Ranks,
        progress: PieceProgress | None = None,
    ) -> None:
        self._job, self._schema, self._paths = job, schema, paths
        self._batch_size, self._shuffle = batch_size, shuffle
        self._ranks = ranks
        # A resumed epoch keeps the split with which it began, also with another number of ranks: its progress counts
        # the pieces of that split.
        piece_bytes = piece_bytes_for(job, paths, ranks=ranks.size) if progress is None else progress.piece_bytes
        trainers = ranks.size if progress is None else progress.trainers
        self._pieces = split_into_pieces(job.data, paths, piece_bytes=piece_bytes, trainers=trainers)
        self.progress = progress or PieceProgress(piece_bytes=piece_bytes, trainers=trainers, pieces=len(self._pieces))
        if self.progress.pieces != len(self._pieces):
            raise CheckpointError(changed_data(self.progress.pieces, len(self._pieces)))
        self.own = [number for number in range(len(self._pieces)) if number % ranks.size == ranks.rank]

    @property
    def pieces(self) -> int:
        return len(self._pieces)

    @property
    def share(self) -> float:
        """How much is done, by pieces of this rank."""
        return len(self.progress.finished.intersection(self.own)) / max(len(self.own), 1)

    def turns(self, *, epoch: int) -> Generator[tuple[Batch, Turn], None, None]:
        """Batches of this rank, as many as the rank with the most has; behind its own last, empty ones."""
        empty = empty_batch(self._schema)
        with closing(self._own_batches(epoch)) as batches:
            stream = full_batches(batches, size=self._batch_size)
            while True:
                # All ranks exchange their numbers of rows in every turn, so all know when the last one has ended.
                mine = next(stream, None)
                rows = int(self._ranks.all_numbers([0 if mine is None else len(mine[0])]).sum())
                if rows == 0:
                    return
                yield (empty, Turn(rows, None)) if mine is None else (mine[0], Turn(rows, mine[1], mine[2]))

    def _own_batches(self, epoch: int) -> Generator[tuple[Batch, int, int], None, None]:
        for number in self.own:
            if number not in self.progress.finished:
                with closing(self._piece(self._pieces[number], epoch)) as batches:
                    for batch, done in batches:
                        yield batch, number, done

    def _piece(self, piece: Piece, epoch: int) -> Generator[tuple[Batch, int], None, None]:
        return piece_batches(
            self._job.data,
            self._schema,
            piece,
            paths=self._paths,
            epoch=epoch,
            seed=self._job.seed,
            batch_size=self._batch_size,
            shuffle=self._shuffle,
            skip=self.progress.begun.get(piece.number, 0),
        )


def full_batches(batches: Iterator[tuple[Batch, int, int]], *, size: int) -> Iterator[tuple[Batch, int, int]]:
    """The same rows in batches of `size`, the last one smaller. With each goes where its last row is from: the piece,
    and how many rows of that piece are handed out by then."""
    held: list[Batch] = []
    rows = piece = done = 0
    for batch, piece, done in batches:
        # A batch may complete the one that is being filled, and begin another.
        left = batch
        while rows + len(left) >= size:
            take = size - rows
            held.append(left.part(0, take))
            left = left.part(take, len(left))
            # The rest of this batch is not handed out yet: a resume must read it again.
            yield join(held), piece, done - len(left)
            held, rows = [], 0
        if len(left):
            held.append(left)
            rows += len(left)
    if held:
        yield join(held), piece, done


def piece_bytes_for(job: Job, paths: list[str], *, ranks: int) -> int:
    """Pieces that are dealt out once must be many, or ranks would have very different numbers of rows."""
    if job.cluster.piece_bytes:
        return job.cluster.piece_bytes
    total = sum(file.size or 0 for file in find(paths, options=job.data.storage))
    return min(max(total // (PIECES_PER_RANK * ranks), _SMALLEST), _LARGEST)


def empty_batch(schema: Schema) -> Batch:
    """A batch of no rows, with the columns that the others have."""
    return Batch(
        labels=np.empty((0, len(schema.labels)), np.float32),
        dense=np.empty((0, schema.dense_width), np.float32),
        keys=np.empty(0, np.uint64),
        weights=np.empty(0, np.float32) if schema.weight else None,
        times=np.empty(0, np.int64) if schema.time else None,
        groups=np.empty(0, np.uint64) if schema.group else None,
    )
