"""The state of a lease table, and how it is saved: short, in plain values, and checked when it is loaded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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


@dataclass(slots=True)
class State:
    """Everything of a lease table that is saved."""

    pieces: int
    attempts: int
    next_lease: int
    static: list[str] | None
    done: set[int] = field(default_factory=set)
    done_rows: int = 0
    repeated_rows: int = 0
    set_aside: dict[int, str] = field(default_factory=dict)
    held: dict[int, Held] = field(default_factory=dict)
    history: dict[int, History] = field(default_factory=dict)
    late: dict[int, int] = field(default_factory=dict)
    """Lost leases, and the rows of each that are accounted for: a holder taken for dead may still be training."""

    def to_dict(self) -> SavedLeases:
        """Plain values only, fit for JSON, and short however many pieces are done."""
        return {
            "pieces": self.pieces,
            "attempts": self.attempts,
            "next_lease": self.next_lease,
            "static": self.static,
            "done": _ranges(self.done),
            "done_rows": self.done_rows,
            "repeated_rows": self.repeated_rows,
            "set_aside": [[piece, reason] for piece, reason in self.set_aside.items()],
            "held": [[*astuple(held.lease), held.holder, held.rows] for held in self.held.values()],
            "history": [[piece, *astuple(history)] for piece, history in self.history.items()],
            "late": [[lease, rows] for lease, rows in self.late.items()],
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
            state = cls(**known)
            state._check()
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"not a lease table: {error}; start the epoch without it") from error
        return state

    def _check(self) -> None:
        names = self.static
        if self.attempts < 1 or (names is not None and (not names or len(set(names)) < len(names))):
            raise ValueError(f"no piece can be taken with attempts {self.attempts} and static {self.static}")
        settled = [*self.done, *self.set_aside, *(held.lease.piece for held in self.held.values())]
        if len(set(settled)) < len(settled):
            raise ValueError("a piece is in two states")
        if any(not 0 <= piece < self.pieces for piece in (*settled, *self.history)):
            raise ValueError(f"it has pieces that are not among the {self.pieces}")
        # Such a number would be given out once more, and late messages could not be told from current ones.
        if any(lease >= self.next_lease for lease in (*self.held, *self.late)):
            raise ValueError(f"it has leases after {self.next_lease - 1}, the last one")


def _ranges(numbers: Iterable[int]) -> list[list[int]]:
    """Numbers as ranges [first, one after the last], as few as possible."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and ranges[-1][1] == number:
            ranges[-1][1] += 1
        else:
            ranges.append([number, number + 1])
    return ranges
