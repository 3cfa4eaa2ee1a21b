"""What the coordinator keeps of each node that has data of its own: how it was cut, and what became of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import PurePosixPath

import msgspec

from clickline.data.leasing.file_layout import FileLayout


class NodeCut(msgspec.Struct, frozen=True):
    """How the training files of a node were cut into pieces; a lease table means nothing with another cut."""

    node: int
    piece_bytes: int
    pieces: int
    digest: str
    """Of the files' names and sizes."""


class NodeRows(msgspec.Struct):
    """The rows of a node's data, over all epochs: trained, and not trained because the node was gone."""

    node: int
    rows: int = 0
    """Trained; each once in an epoch, however often."""
    untrained_pieces: int = 0
    untrained_rows: int | None = 0
    """None if a piece of them was trained in no epoch, so that its rows were never counted."""

    def add(self, *, rows: int, untrained: Sequence[int | None]) -> None:
        """Add an epoch: rows trained, and the rows of each piece that was not trained, where they are known."""
        self.rows += rows
        self.untrained_pieces += len(untrained)
        known = [count for count in untrained if count is not None]
        if self.untrained_rows is not None:
            self.untrained_rows = self.untrained_rows + sum(known) if len(known) == len(untrained) else None

    def untrained_since(self, before: NodeRows | None) -> str:
        """What was not trained since, in words; empty if there is nothing."""
        old = before or NodeRows(self.node)
        pieces = self.untrained_pieces - old.untrained_pieces
        if not pieces:
            return ""
        known = self.untrained_rows is not None and old.untrained_rows is not None
        rows = f"{(self.untrained_rows or 0) - (old.untrained_rows or 0):,}" if known else "an unknown number of"
        return f"{pieces} pieces of node {self.node} with {rows} rows were not trained: the node was gone"


def digest_of(files: Sequence[FileLayout]) -> str:
    """Names, not paths: the same data may be mounted in another directory today."""
    names = [(PurePosixPath(file.path).name, file.size) for file in files]
    return hashlib.sha256(json.dumps(names).encode()).hexdigest()
