"""File layouts: where a file can be cut into pieces, known to whoever can open it.

Trainers may have files of their own that the coordinator cannot open. They send it the layouts, and the cut itself
needs no file any more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from clickline.config.data import Data
from clickline.data.sources.block_source import TEXT_FORMATS
from clickline.data.sources.compression import is_compressed
from clickline.data.sources.files import File
from clickline.data.sources.log_block import WHOLE_FILE, Span

_PIECES_PER_TRAINER = 8
_SMALLEST, _LARGEST = 1 << 20, 64 << 20


@dataclass(frozen=True, slots=True)
class FileLayout:
    """A file, its size, and where it can be cut."""

    path: str
    size: int | None
    """Bytes, if its file system knows."""
    seekable: bool = False
    """Plain text, which can be read from any byte on."""
    row_groups: tuple[int, ...] = ()
    """Parquet: the bytes of each row group, between which it can be cut."""

    def spans(self, piece_bytes: int) -> Iterator[Span]:
        """The file in parts of about so many bytes; none of an empty one."""
        if self.size == 0:
            return
        if self.row_groups:
            yield from _runs(self.row_groups, piece_bytes)
        elif self.seekable and self.size is not None and self.size > piece_bytes:
            count = -(-self.size // piece_bytes)
            # Spans of equal size, wherever lines begin: text_blocks gives each line to the span in which it starts.
            places = [self.size * number // count for number in range(count)]
            yield from zip(places, [*places[1:], None], strict=True)
        else:
            yield WHOLE_FILE


def piece_size(sizes: Sequence[int | None], *, piece_bytes: int, trainers: int) -> int:
    """Bytes of a piece: as told; with 0, such that there are eight for each trainer, of 1 to 64 MiB."""
    if piece_bytes < 0:
        raise ValueError(f"argument 'piece_bytes' must be at least 0 but got {piece_bytes}")
    if trainers < 1:
        raise ValueError(f"argument 'trainers' must be at least 1 but got {trainers}")
    if piece_bytes:
        return piece_bytes
    wanted = -(-sum(size or 0 for size in sizes) // (_PIECES_PER_TRAINER * trainers))
    return min(max(wanted, _SMALLEST), _LARGEST)


def layouts_of(files: Sequence[File], data: Data, *, piece_bytes: int, trainers: int) -> list[FileLayout]:
    """The layouts of files, for pieces that are not smaller than those for so many trainers."""
    sizes = [file.size for file in files]
    piece_bytes = piece_size(sizes, piece_bytes=piece_bytes, trainers=trainers)
    return [_layout_of(file, size, data, piece_bytes) for file, size in zip(files, sizes, strict=True)]


def _layout_of(file: File, size: int | None, data: Data, piece_bytes: int) -> FileLayout:
    # Decided by size alone where possible: the checks below open the file, which is slow on remote storage.
    if size is not None and size > piece_bytes:
        if data.format == "parquet":
            from clickline.data.sources.column_blocks import row_groups

            return FileLayout(file.path, size, row_groups=tuple(row_groups(file)))
        if data.format in TEXT_FORMATS and not data.pipe_command:
            return FileLayout(file.path, size, seekable=_can_be_entered(file))
    return FileLayout(file.path, size)


def _can_be_entered(file: File) -> bool:
    with file.open() as raw:
        return raw.seekable() and not is_compressed(raw)


def _runs(sizes: Sequence[int], most: int) -> Iterator[Span]:
    """Neighbours together, as long as they have no more than `most` bytes."""
    begin = total = 0
    for number, size in enumerate(sizes):
        # A row group larger than `most` cannot be divided: it becomes a run of its own.
        if number > begin and total + size > most:
            yield begin, number
            begin, total = number, 0
        total += size
    yield begin, None
