"""The state of a lease table, and how it is saved: short, in plain values, and checked when it is loaded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from typing import Any

from clickline.errors import CheckpointError

SavedLeases = dict[str, Any]
"""A lease table as JSON holds it: the fields of `State`, in lists and numbers."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to train on a piece."""

    number: int
    """From 1 on; 0 never is a lease."""
    piece: int
    skip: int
    """Rows of the piece that were trained under earlier leases."""
    attempt: int
    """1 for the first one."""


@dataclass(frozen=True, slots=True)
class Held:
    """A lease that a trainer holds."""

    lease: Lease
    holder: str
    rows: int
    """Rows of the piece known to be done, `skip` included."""


@dataclass(frozen=True, slots=True)
class Lost:
    """A lease that was taken back."""

    lease: int
    piece: int
    rows: int
    """Where the piece is resumed."""
    repeated: int
    """Rows known to be done that the next holder will train again."""
    set_aside: bool
    """Whether the piece is not given out any more."""


@dataclass(slots=True)
class History:
    """Earlier leases of a piece that was given back."""

    rows: int = 0
    tries: int = 0
    failures: int = 0
    """Those tries that ended because the piece could not be read."""


@dataclass(frozen=True, slots=True)
class PieceRange:
    """Neighbouring pieces, and who may take them: anybody, trainers of one node, or trainers by name."""

    pieces: int
    node: int | None = None
    """Only trainers of this node; None = of any."""
    names: tuple[str, ...] | None = None
    """Piece i of the range is for names[i % len(names)] only; None = for anybody there."""
    given_up: bool = False
    """Nobody is left who could read what is not done."""


@dataclass(slots=True)
class State:
    """Everything of a lease table that is saved."""

    pieces: int
    attempts: int
    next_lease: int
    ranges: list[PieceRange]
    """All pieces, in order."""
    done: set[int] = field(default_factory=set)
    done_rows: int = 0
    repeated_rows: int = 0
    set_aside: dict[int, str] = field(default_factory=dict)
    held: dict[int, Held] = field(default_factory=dict)
    history: dict[int, History] = field(default_factory=dict)
    late: dict[int, int] = field(default_factory=dict)
    """Lost leases, and the rows of each that are accounted for: a holder taken for dead may still be training."""
    node_rows: dict[int, int] = field(default_factory=dict)
    """Rows of finished pieces by node, of ranges that are for one."""

    def to_dict(self) -> SavedLeases:
        """Plain values only, fit for JSON, and short however many pieces are done."""
        return {
            "pieces": self.pieces,
            "attempts": self.attempts,
            "next_lease": self.next_lease,
            "ranges": [[each.pieces, each.node, each.names, each.given_up] for each in self.ranges],
            "done": _ranges(self.done),
            "done_rows": self.done_rows,
            "repeated_rows": self.repeated_rows,
            "set_aside": [[piece, reason] for piece, reason in self.set_aside.items()],
            "held": [[*astuple(held.lease), held.holder, held.rows] for held in self.held.values()],
            "history": [[piece, *astuple(history)] for piece, history in self.history.items()],
            "late": [[lease, rows] for lease, rows in self.late.items()],
            "node_rows": [[node, rows] for node, rows in self.node_rows.items()],
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> State:
        try:
            known = dict(values)
            # Before the ranges are expanded: the end of a damaged one could stand for any number of pieces.
            if any(not 0 <= begin < end <= known["pieces"] for begin, end in known["done"]):
                raise ValueError(f"it has pieces that are not among the {known['pieces']}")
            known["done"] = {piece for begin, end in known["done"] for piece in range(begin, end)}
            known["set_aside"] = dict(known["set_aside"])
            known["held"] = {
                number: Held(lease=Lease(number, piece, skip, attempt), holder=holder, rows=rows)
                for number, piece, skip, attempt, holder, rows in known["held"]
            }
            known["history"] = {piece: History(*rest) for piece, *rest in known["history"]}
            known["late"] = dict(known["late"])
            known["node_rows"] = dict(known.get("node_rows", ()))
            # Tables of earlier releases have no ranges but one list of names, or none, for all pieces.
            saved = known["ranges"] if "ranges" in known else [[known["pieces"], None, known.pop("static"), False]]
            known["ranges"] = [_range(*one) for one in saved]
            state = cls(**known)
            state._check()
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"not a lease table: {error}; start the epoch without it") from error
        return state

    def _check(self) -> None:
        if self.attempts < 1:
            raise ValueError(f"no piece can be taken with attempts {self.attempts}")
        check_ranges(self.ranges, pieces=self.pieces)
        settled = [*self.done, *self.set_aside, *(held.lease.piece for held in self.held.values())]
        if len(set(settled)) < len(settled):
            raise ValueError("a piece is in two states")
        if any(not 0 <= piece < self.pieces for piece in (*settled, *self.history)):
            raise ValueError(f"it has pieces that are not among the {self.pieces}")
        # Such a number would be given out once more, and late messages could not be told from current ones.
        if any(lease >= self.next_lease for lease in (*self.held, *self.late)):
            raise ValueError(f"it has leases after {self.next_lease - 1}, the last one")


def check_ranges(ranges: Sequence[PieceRange], *, pieces: int) -> None:
    """Raise ValueError unless they have all pieces, each for somebody or given up."""
    if any(each.pieces < 0 for each in ranges) or sum(each.pieces for each in ranges) != pieces:
        raise ValueError(f"argument 'ranges' must have {pieces} pieces together but has {list(ranges)}")
    for each in ranges:
        if each.names is not None and len(set(each.names)) < len(each.names):
            raise ValueError(f"argument 'ranges' must have different names in a range but has {list(each.names)}")
        if each.names == () and not each.given_up:
            raise ValueError("argument 'ranges' must have at least one name in a range that is not given up")


def _range(pieces: int, node: int | None, names: list[str] | None, given_up: bool) -> PieceRange:
    return PieceRange(pieces, node, None if names is None else tuple(names), given_up)


def _ranges(numbers: Iterable[int]) -> list[list[int]]:
    """Numbers as ranges [first, one after the last], as few as possible."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and ranges[-1][1] == number:
            ranges[-1][1] += 1
        else:
            ranges.append([number, number + 1])
    return ranges
