"""The progress of a pass over pieces of the data, for ranks and for the lease table of parameter servers.

The order of a piece's rows follows from seed, epoch and its number alone. So which pieces are finished, and how many
rows of the others are done, is all that is needed to resume, in one process or many, with servers or without.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from clickline.data.leasing.lease_state import History, PieceRange, State
from clickline.errors import CheckpointError
from clickline.train.checkpoints.checkpoint_manifest import Checkpoint, JsonObject


@dataclass(frozen=True, slots=True)
class Turn:
    """Where in the data the rows of one step are from."""

    rows: int
    """Rows of all ranks together."""
    piece: int | None
    """The piece this rank's rows are from; None when it has no more."""
    done: int = 0
    """Rows of that piece read so far."""


@dataclass
class PieceProgress:
    """How much of each piece was trained."""

    piece_bytes: int
    trainers: int
    """Both as they were when the data was split into pieces."""
    pieces: int
    finished: set[int] = field(default_factory=set)
    begun: dict[int, int] = field(default_factory=dict)
    """Rows read of pieces that are not known to be finished."""

    def heed(self, turn: Turn, *, own: list[int]) -> None:
        """Note a step. Own pieces are read in order, so those before the step's piece are finished."""
        # A batch may reach over the ends of several pieces, and the turn names the piece of its last row only. Whether
        # that piece has more rows is not known yet: it counts as finished when a later piece, or the end, is reported.
        behind = [number for number in own if turn.piece is None or number < turn.piece]
        self.finished.update(behind)
        for number in behind:
            self.begun.pop(number, None)
        if turn.piece is not None:
            self.begun[turn.piece] = turn.done

    def join(self, other: PieceProgress) -> None:
        """Add the progress of another rank in the same pass."""
        # After a resume every rank begins with the progress of all. What it holds of the pieces of other ranks is as
        # old as the checkpoint: the larger number of rows is the newer one, and `finished` is newer than `begun`.
        self.finished |= other.finished
        self.begun.update({number: max(rows, self.begun.get(number, 0)) for number, rows in other.begun.items()})
        for number in self.finished & self.begun.keys():
            del self.begun[number]

    def to_dict(self) -> dict[str, object]:
        """As a manifest holds it."""
        begun = {str(number): rows for number, rows in sorted(self.begun.items())}
        return {**self.__dict__, "finished": sorted(self.finished), "begun": begun}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> PieceProgress:
        """From what `to_dict` returned."""
        begun = {int(number): rows for number, rows in saved["begun"].items()}
        return cls(**{**saved, "finished": set(saved["finished"]), "begun": begun})

    def to_book(self, *, attempts: int) -> JsonObject:
        """A saved lease table with this progress, in which no lease is held. It lacks the rows of finished pieces."""
        history = {piece: History(rows=rows) for piece, rows in self.begun.items()}
        book = State(
            pieces=self.pieces,
            attempts=attempts,
            next_lease=1,
            ranges=[PieceRange(self.pieces)],
            done=set(self.finished),
            history=history,
        )
        return book.to_dict()

    @classmethod
    def from_book(cls, book: Mapping[str, Any], *, piece_bytes: int, trainers: int) -> PieceProgress:
        """The progress that a saved lease table records. Pieces that were set aside count as finished."""
        state = State.from_dict(book)
        begun = {piece: history.rows for piece, history in state.history.items() if history.rows}
        # A snapshot is taken while all trainers are paused, so every row of a held piece is known.
        begun |= {held.lease.piece: held.rows for held in state.held.values()}
        finished = state.done | set(state.set_aside)
        return cls(
            piece_bytes=piece_bytes,
            trainers=trainers,
            pieces=state.pieces,
            finished=finished,
            begun={piece: rows for piece, rows in begun.items() if piece not in finished},
        )


def progress_in(checkpoint: Checkpoint) -> PieceProgress | None:
    """The progress of the epoch in which a checkpoint was written; None between epochs, and for one process alone."""
    manifest = checkpoint.manifest
    progress = manifest.get("progress")
    if progress is not None:
        return PieceProgress.from_dict(progress)
    standing = manifest["standing"]
    if standing.get("book") is None:
        return None
    if standing.get("cut_nodes"):
        raise CheckpointError(
            f"{checkpoint.path} stands in the middle of an epoch with data.placement: node, which only parameter "
            "servers can resume: resume with one of their strategies, or begin from its weights with --warm-start"
        )
    # Before `cut_bytes` was kept, the job said it.
    piece_bytes = standing.get("cut_bytes")
    if piece_bytes is None:
        piece_bytes = manifest["job"]["cluster"]["piece_bytes"]
    return PieceProgress.from_book(standing["book"], piece_bytes=piece_bytes, trainers=standing["cut_for"])
