"""How far a pass over pieces of the data has come, in the terms of ranks and of the leases of parameter servers.

The order of a piece's rows follows from seed, epoch and its number alone. So "these pieces are finished, and of those
so many rows are done" is all that anybody needs to go on, one process or many, with servers or without.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from clickline.data.leasing.lease_state import History, State
from clickline.train.checkpoints.checkpoint_files import Checkpoint


@dataclass(frozen=True, slots=True)
class Turn:
    """One step's place in the data."""

    rows: int
    """Of all ranks together."""
    piece: int | None
    """The piece this rank's rows are from; None when it has no more."""
    done: int = 0
    """Rows of that piece read so far."""


@dataclass
class PieceProgress:
    """How far a pass has come, by piece."""

    piece_bytes: int
    trainers: int
    """Both as they were when the data was cut."""
    pieces: int
    finished: set[int] = field(default_factory=set)
    begun: dict[int, int] = field(default_factory=dict)
    """Rows read of pieces that are not known to be finished."""

    def heed(self, turn: Turn, *, own: list[int]) -> None:
        """Own pieces are read in order: those before this turn's are finished."""
        behind = [number for number in own if turn.piece is None or number < turn.piece]
        self.finished.update(behind)
        for number in behind:
            self.begun.pop(number, None)
        if turn.piece is not None:
            self.begun[turn.piece] = turn.done

    def join(self, other: PieceProgress) -> None:
        """Another rank's, of the same pass."""
        self.finished |= other.finished
        self.begun.update({number: max(rows, self.begun.get(number, 0)) for number, rows in other.begun.items()})
        for number in self.finished & self.begun.keys():
            del self.begun[number]

    def to_dict(self) -> dict[str, Any]:
        begun = {str(number): rows for number, rows in sorted(self.begun.items())}
        return {**self.__dict__, "finished": sorted(self.finished), "begun": begun}

    @classmethod
    def from_dict(cls, facts: dict[str, Any]) -> PieceProgress:
        begun = {int(number): rows for number, rows in facts["begun"].items()}
        return cls(**{**facts, "finished": set(facts["finished"]), "begun": begun})

    def to_book(self, *, attempts: int) -> dict[str, Any]:
        """The same as a book of leases of which nobody holds any. Rows of finished pieces are not in it."""
        history = {piece: History(rows=rows) for piece, rows in self.begun.items()}
        book = State(
            pieces=self.pieces, attempts=attempts, next_lease=1, static=None, done=set(self.finished), history=history
        )
        return book.to_dict()

    @classmethod
    def from_book(cls, book: dict[str, Any], *, piece_bytes: int, trainers: int) -> PieceProgress:
        """What a book of leases says is done. Pieces that were set aside stay so: nobody reads them."""
        state = State.from_dict(book)
        begun = {piece: history.rows for piece, history in state.history.items() if history.rows}
        # A cut is made while all stand still, so of what is held every row is known.
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
    """How far the epoch had come in which a checkpoint was written; None between epochs, and for one process alone."""
    manifest = checkpoint.manifest
    if manifest.get("progress") is not None:
        return PieceProgress.from_dict(manifest["progress"])
    standing = manifest["standing"]
    if standing.get("book") is None:
        return None
    # Before `cut_bytes` was kept, the job said it.
    piece_bytes = standing.get("cut_bytes")
    if piece_bytes is None:
        piece_bytes = manifest["job"]["cluster"]["piece_bytes"]
    return PieceProgress.from_book(standing["book"], piece_bytes=piece_bytes, trainers=standing["cut_for"])
