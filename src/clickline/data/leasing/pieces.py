"""Pieces: parts of the data that trainers read one at a time, small enough to be read again if a trainer is lost.

Plain text is split at bytes. A piece has the lines that start in it, so line ends need not be found before it is read.
Parquet is split between row groups. Compressed text and the files of custom readers cannot be read from the middle:
there a piece is a file. All pieces together are all rows, each once.

The order of a piece's rows follows from seed, epoch and the piece's number, whichever trainer reads it, whenever, and
with however many threads. Therefore the number of rows that are done is enough to resume within it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from clickline.config.data import Data
from clickline.data.batch import Batch
from clickline.data.block_pipeline import BlockParser, BlockPipeline
from clickline.data.leasing.file_layout import FileLayout, layouts_of, piece_size
from clickline.data.position import LogOffset, RowCounts
from clickline.data.report import Report, RowCounter
from clickline.data.schema import Schema
from clickline.data.shuffling import WindowBuilder, first_position
from clickline.data.sources.block_source import BlockSource, check_same_file
from clickline.data.sources.files import File, find
from clickline.data.sources.log_block import LogBlock
from clickline.errors import DataError


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a file: the lines that start at a byte from `begin` to before `end`, or the row groups in between."""

    number: int
    file: int
    """Number of the file in the order of reading."""
    path: str
    begin: int
    end: int | None
    """None is the end of the file."""


def split_into_pieces(data: Data, paths: list[str], *, piece_bytes: int, trainers: int) -> list[Piece]:
    """The data in pieces of about `piece_bytes` bytes of file; 0 is eight for each trainer, of 1 to 64 MiB.

    The same files give the same pieces. Empty files have none.
    """
    files = find(paths, options=data.storage)
    layouts = layouts_of(files, data, piece_bytes=piece_bytes, trainers=trainers)
    pieces = cut_files(layouts, piece_bytes=piece_bytes, trainers=trainers)
    if not pieces:
        raise no_rows(layouts)
    return pieces


def cut_files(layouts: Sequence[FileLayout], *, piece_bytes: int, trainers: int, first: int = 0) -> list[Piece]:
    """The files in pieces, which are numbered from `first` on. Nothing is opened."""
    piece_bytes = piece_size([layout.size for layout in layouts], piece_bytes=piece_bytes, trainers=trainers)
    spans = [(file, span) for file, layout in enumerate(layouts) for span in layout.spans(piece_bytes)]
    return [
        Piece(number=first + place, file=file, path=layouts[file].path, begin=begin, end=end)
        for place, (file, (begin, end)) in enumerate(spans)
    ]


def no_rows(layouts: Sequence[FileLayout]) -> DataError:
    """The error of data that has no piece."""
    shown = ", ".join(layout.path for layout in layouts[:3]) + (", …" if len(layouts) > 3 else "")
    return DataError(f"there are no rows in the data: {shown} ({len(layouts)} files, all empty)")


def shortage(pieces: int, *, trainers: int) -> str | None:
    """A warning if there are fewer pieces than trainers, some of which would only wait; None otherwise."""
    if pieces >= trainers:
        return None
    idle = trainers - pieces
    return (
        f"the data is in {pieces} piece{'' if pieces == 1 else 's'} for {trainers} trainers: {idle} of them "
        f"{'has' if idle == 1 else 'have'} nothing to read; write the data as more files (a compressed file is always "
        f"one piece), set cluster.piece_bytes to less if it is plain text, or set cluster.trainers to {pieces}"
    )


def changed_data(then: int, now: int) -> str:
    """The message of an error if a pass cannot be resumed because the data is in other pieces now."""
    return (
        f"the data was split into {then} pieces when the checkpoint was made and is now {now}: files have come, gone "
        "or changed; restore them, or start over with --fresh"
    )


def piece_batches(
    data: Data,
    schema: Schema,
    piece: Piece,
    *,
    paths: list[str],
    epoch: int,
    seed: int,
    batch_size: int,
    shuffle: bool,
    skip: int = 0,
) -> Generator[tuple[Batch, int], None, None]:
    """The batches of a piece, each with the rows of it that are handed out by then; `skip` is such a number.

    A generator: closing it, or leaving the loop over it, stops the threads behind it. Batches must not be changed.
    """
    reader = open_piece(
        data,
        schema,
        piece,
        paths=paths,
        epoch=epoch,
        seed=seed,
        batch_size=batch_size,
        shuffle=shuffle,
        skip=skip,
    )
    try:
        yield from reader
    finally:
        reader.close()


def open_piece(
    data: Data,
    schema: Schema,
    piece: Piece,
    *,
    paths: list[str],
    epoch: int,
    seed: int,
    batch_size: int,
    shuffle: bool,
    skip: int = 0,
) -> PieceReader:
    """The same as an object that can be started ahead of its first batch. Nothing is opened before that."""
    if batch_size < 1:
        raise ValueError(f"argument 'batch_size' must be at least 1 but got {batch_size}")
    if skip < 0:
        raise ValueError(f"argument 'skip' must be at least 0 but got {skip}")
    settings = first_position(
        epoch=epoch,
        # Windows are numbered from 0 in every piece: with one seed, all pieces would be permuted alike.
        seed=_seed(seed, piece.number),
        batch_size=batch_size,
        shuffle_rows=data.shuffle_rows if shuffle else 0,
    )
    # All windows but the last are full, so the number of rows that were done says in which window to resume, and where.
    window, taken = divmod(skip, settings.rows)
    offset = LogOffset(file=piece.file, path=piece.path, skip=window * settings.rows)
    start = replace(settings, window=window, taken=taken, place=offset)
    # Skipped rows are parsed again and so counted again: the counter starts at zero, and the limit is that of the
    # piece. A resumed piece does not log its malformed rows a second time.
    counter = RowCounter(limit=data.max_bad_rows, start=RowCounts(), warn=epoch == 0 and skip == 0)
    source = BlockSource(data, schema, span=(piece.begin, piece.end))
    pipeline = BlockPipeline(
        _blocks(source, data, start=offset, paths=paths),
        parser=BlockParser(schema),
        window_builder=WindowBuilder(start=start, settings=settings, counter=counter),
        batch_size=batch_size,
        threads=data.threads,
    )
    return PieceReader(pipeline, schema=schema, counter=counter, skip=skip)


class PieceReader(Iterator[tuple[Batch, int]]):
    """Batches of a piece, each with the rows of it that are handed out by then. To be closed."""

    def __init__(self, pipeline: BlockPipeline, *, schema: Schema, counter: RowCounter, skip: int) -> None:
        self._pipeline, self._schema, self._counter, self._rows = pipeline, schema, counter, skip

    def start(self) -> None:
        """Begin to read, in the background, as far as there is room."""
        self._pipeline.start()

    def __next__(self) -> tuple[Batch, int]:
        batch, _ = next(self._pipeline)
        self._rows += len(batch)
        return batch, self._rows

    @property
    def report(self) -> Report:
        """What was found in the piece so far, skipped rows included."""
        dense = [(dense.name, dense.size) for dense in self._schema.dense]
        return self._counter.report(dense=dense, slots=self._schema.slot_names)

    def close(self) -> None:
        """Stop the threads and wait for them. Safe to call twice."""
        self._pipeline.close()


def _blocks(source: BlockSource, data: Data, *, start: LogOffset, paths: list[str]) -> Iterator[LogBlock]:
    """The piece's blocks. Runs in the background, listing the files included: the storage may be far away."""
    options = tuple(sorted(data.storage.items()))
    # The cached listing may be of an earlier state of the storage: if it does not fit, list again.
    files = _listed(tuple(paths), options)
    if start.file >= len(files) or files[start.file].path != start.path:
        files = list(find(paths, options=data.storage))
        check_same_file(files, start)
    yield from source.file_blocks(files[start.file], start=start)


@lru_cache(maxsize=4)
def _listed(paths: tuple[str, ...], options: tuple[tuple[str, str], ...]) -> list[File]:
    """The files, listed once and not for every piece; a listing may take as long as a piece."""
    return find(paths, options=dict(options))


def _seed(seed: int, piece: int) -> int:
    return int(np.random.SeedSequence((seed, piece)).generate_state(1, np.uint64)[0])
