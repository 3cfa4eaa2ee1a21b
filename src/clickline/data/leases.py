"""Who reads which piece of the data: a book of leases, and nothing else. No clock, no files, no network.

A piece is waiting, held under a lease, done, or set aside. A lease that is lost gives its piece back, to be resumed
after the rows that are known to be in the model. A piece whose readers keep failing is set aside, so that one bad file
cannot take down trainers for ever. Rows are counted from the beginning of a piece, skipped ones included.

Beware: numbers of leases tell old messages from new ones, so they must not come again in a run. A book for the next
epoch, or one restored from an older state, is told where to go on (`first`).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from typing import Any

from clickline.errors import CheckpointError


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
    """A lease that somebody has."""

    lease: Lease
    holder: str
    rows: int
    """Known to be done, `skip` included."""


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
    """Nobody gets the piece any more."""


@dataclass(slots=True)
class _History:
    """What is known of a piece that was given back."""

    rows: int = 0
    tries: int = 0
    failures: int = 0
    """Those tries that the reader itself gave up."""


@dataclass(slots=True)
class _State:
    """All that is saved."""

    pieces: int
    attempts: int
    next_lease: int
    static: list[str] | None
    done: set[int] = field(default_factory=set)
    done_rows: int = 0
    repeated_rows: int = 0
    set_aside: dict[int, str] = field(default_factory=dict)
    held: dict[int, Held] = field(default_factory=dict)
    history: dict[int, _History] = field(default_factory=dict)
    late: dict[int, int] = field(default_factory=dict)
    """Lost leases and up to where their rows are accounted for: a holder taken for dead may still be training."""


class LeaseBook:
    """The pieces of one epoch. With `static`, piece i is for static[i % len(static)] only."""

    def __init__(self, pieces: int, *, attempts: int, static: Sequence[str] | None = None, first: int = 1) -> None:
        for name, value, least in (("pieces", pieces, 0), ("attempts", attempts, 1), ("first", first, 1)):
            if value < least:
                raise ValueError(f"Argument '{name}' must be at least {least} but got {value}.")
        self._state = _State(pieces=pieces, attempts=attempts, next_lease=first, static=None)
        self.assign(static)

    def assign(self, static: Sequence[str] | None) -> None:
        """Say anew for whom the pieces are that nobody holds; None is for anybody."""
        if static is not None and (not static or len(set(static)) < len(static)):
            raise ValueError(f"Argument 'static' must be different names, at least one, but got {list(static)}.")
        state = self._state
        state.static = None if static is None else list(static)
        self._waiting: dict[str, list[tuple[int, int]]] = {}
        held = {held.lease.piece for held in state.held.values()}
        for piece in range(state.pieces):
            if piece not in state.done and piece not in state.set_aside and piece not in held:
                self._wait(piece)

    def take(self, holder: str) -> Lease | None:
        """The next piece for a holder, who may have several at a time; None if there is none to be had now."""
        state = self._state
        waiting = self._waiting.get("" if state.static is None else holder)
        if not waiting:
            return None
        _, piece = heapq.heappop(waiting)
        history = state.history.get(piece, _History())
        lease = Lease(number=state.next_lease, piece=piece, skip=history.rows, attempt=history.tries + 1)
        state.next_lease += 1
        state.held[lease.number] = Held(lease=lease, holder=holder, rows=lease.skip)
        return lease

    def progress(self, lease: int, rows: int) -> None:
        """Rows of the piece that are done. News of a lease that was lost only count what is now trained twice."""
        state = self._state
        held = state.held.get(lease)
        if held is not None:
            state.held[lease] = replace(held, rows=max(held.rows, rows))
        elif rows > state.late.get(lease, rows):
            state.repeated_rows += rows - state.late[lease]
            state.late[lease] = rows

    def finish(self, lease: int, rows: int) -> bool:
        """The piece is done and has so many rows. False: it is no longer theirs, and was or will be given to others."""
        state = self._state
        self.progress(lease, rows)
        held = state.held.pop(lease, None)
        if held is None:
            state.late.pop(lease, None)
            return False
        state.done.add(held.lease.piece)
        state.done_rows += held.rows
        state.history.pop(held.lease.piece, None)
        return True

    def lose(self, holder: str, *, done: Mapping[int, int], blame: bool = True) -> list[Lost]:
        """Take back all that a holder has. `done` is rows by lease, where better known than by `progress`.

        `blame=False` is for those who leave in order: it does not count against the piece.
        """
        gone = [held for held in self._state.held.values() if held.holder == holder]
        return [
            self._give_back(held, rows=done.get(held.lease.number, held.rows), blame=blame, reason=f"{holder} was lost")
            for held in gone
        ]

    def fail(self, lease: int, *, reason: str) -> None:
        """The holder could not read on, and says why. Others get the piece after all that have not failed."""
        held = self._state.held.get(lease)
        if held is not None:
            self._state.history.setdefault(held.lease.piece, _History()).failures += 1
            self._give_back(held, rows=held.rows, blame=True, reason=reason)

    def _give_back(self, held: Held, *, rows: int, blame: bool, reason: str) -> Lost:
        state, lease = self._state, held.lease
        if rows < 0:
            raise ValueError(f"Lease {lease.number} cannot have {rows} rows done.")
        del state.held[lease.number]
        history = state.history.setdefault(lease.piece, _History())
        history.rows = rows
        history.tries += blame
        aside = history.tries >= state.attempts
        repeated = 0 if aside else max(held.rows - rows, 0)
        if aside:
            state.set_aside[lease.piece] = reason
        else:
            state.repeated_rows += repeated
            state.late[lease.number] = max(held.rows, rows)
            self._wait(lease.piece)
        return Lost(lease=lease.number, piece=lease.piece, rows=rows, repeated=repeated, set_aside=aside)

    def _wait(self, piece: int) -> None:
        # The lowest number first: what was lost is resumed before new pieces are begun.
        state = self._state
        history = state.history.get(piece)
        lane = "" if state.static is None else state.static[piece % len(state.static)]
        heapq.heappush(self._waiting.setdefault(lane, []), (history.failures if history else 0, piece))

    @property
    def complete(self) -> bool:
        """Whether every piece is done or set aside."""
        return self.done + len(self._state.set_aside) == self._state.pieces

    @property
    def done(self) -> int:
        """Pieces that are finished."""
        return len(self._state.done)

    @property
    def remaining(self) -> int:
        """Pieces that wait for a holder."""
        return sum(len(waiting) for waiting in self._waiting.values())

    @property
    def active(self) -> tuple[Held, ...]:
        """Leases that are held, oldest first."""
        return tuple(self._state.held.values())

    @property
    def set_aside(self) -> dict[int, str]:
        """Pieces that were given up, each with the last reason."""
        return dict(self._state.set_aside)

    @property
    def rows_done(self) -> int:
        """Rows of finished pieces, and those known to be done of all others. Each counts once."""
        state = self._state
        held = {held.lease.piece: held.rows for held in state.held.values()}
        begun = {piece: history.rows for piece, history in state.history.items()}
        return state.done_rows + sum((begun | held).values())

    @property
    def repeated_rows(self) -> int:
        """Rows that were trained once more than once, as far as is known."""
        return self._state.repeated_rows

    @property
    def next_lease(self) -> int:
        """The number of the next lease: `first` of the book that follows."""
        return self._state.next_lease

    def to_dict(self) -> dict[str, Any]:
        """Plain values only, fit for JSON, and short however many pieces are done."""
        state = self._state
        return {
            "pieces": state.pieces,
            "attempts": state.attempts,
            "next_lease": state.next_lease,
            "static": state.static,
            "done": _ranges(state.done),
            "done_rows": state.done_rows,
            "repeated_rows": state.repeated_rows,
            "set_aside": [[piece, reason] for piece, reason in state.set_aside.items()],
            "held": [[*astuple(held.lease), held.holder, held.rows] for held in state.held.values()],
            "history": [[piece, *astuple(history)] for piece, history in state.history.items()],
            "late": [[lease, rows] for lease, rows in state.late.items()],
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], *, first: int = 1) -> LeaseBook:
        """What `to_dict` gave; leases get numbers from `first` on, or from where the book was if that is later."""
        try:
            known = dict(values)
            known["next_lease"] = max(known["next_lease"], first)
            known["done"] = {piece for begin, end in known["done"] for piece in range(begin, end)}
            known["set_aside"] = dict(known["set_aside"])
            known["held"] = {
                number: Held(lease=Lease(number, piece, skip, attempt), holder=holder, rows=rows)
                for number, piece, skip, attempt, holder, rows in known["held"]
            }
            known["history"] = {piece: _History(*rest) for piece, *rest in known["history"]}
            known["late"] = dict(known["late"])
            state = _State(**known)
            _check(state)
            book = cls(0, attempts=state.attempts)
            book._state = state
            book.assign(state.static)
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"This is no book of leases: {error}. Start the epoch without it.") from error
        return book


def _ranges(numbers: Iterable[int]) -> list[list[int]]:
    """Numbers as [first, one after the last], as few as possible."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and ranges[-1][1] == number:
            ranges[-1][1] += 1
        else:
            ranges.append([number, number + 1])
    return ranges


def _check(state: _State) -> None:
    held = [held.lease.piece for held in state.held.values()]
    settled = [*state.done, *state.set_aside, *held]
    if len(set(settled)) < len(settled):
        raise ValueError("a piece is in two states")
    if any(not 0 <= piece < state.pieces for piece in (*settled, *state.history)):
        raise ValueError(f"it knows pieces that are not among the {state.pieces}")
    if any(lease >= state.next_lease for lease in (*state.held, *state.late)):
        raise ValueError(f"it knows leases that come after {state.next_lease - 1}")
