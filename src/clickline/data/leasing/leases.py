"""The lease table: which trainer reads which piece of the data. No clock, no files, no network.

A piece is waiting, held under a lease, done, or set aside. A lease that is lost gives its piece back, to be resumed
after the rows that are known to be in the model. A piece whose readers keep failing is set aside, so that one bad file
cannot take down trainers for ever. Rows are counted from the beginning of a piece, skipped ones included.

Beware: a lease's number tells late messages from current ones, so it must not be used twice in a run. A table for the
next epoch, or one restored from an earlier state, is given the next number (`first`).
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from clickline.data.leasing.lease_state import Held, History, Lease, Lost, SavedLeases, State

__all__ = ["Held", "Lease", "LeaseTable", "Lost"]


class LeaseTable:
    """The pieces of one epoch. With `static`, piece i is for static[i % len(static)] only."""

    def __init__(self, pieces: int, *, attempts: int, static: Sequence[str] | None = None, first: int = 1) -> None:
        for name, value, least in (("pieces", pieces, 0), ("attempts", attempts, 1), ("first", first, 1)):
            if value < least:
                raise ValueError(f"argument '{name}' must be at least {least} but got {value}")
        self._state = State(pieces=pieces, attempts=attempts, next_lease=first, static=None)
        self.assign(static)

    def assign(self, static: Sequence[str] | None) -> None:
        """Reassign the pieces that are not held: piece i to static[i % len(static)]; None lets any holder take any."""
        if static is not None and (not static or len(set(static)) < len(static)):
            raise ValueError(f"argument 'static' must be different names, at least one, but got {list(static)}")
        state = self._state
        state.static = None if static is None else list(static)
        self._waiting: dict[str, list[tuple[int, int]]] = {}
        held = {held.lease.piece for held in state.held.values()}
        for piece in range(state.pieces):
            if piece not in state.done and piece not in state.set_aside and piece not in held:
                self._wait(piece)

    def take(self, holder: str) -> Lease | None:
        """A lease of the next piece for a holder, which may have several; None if no piece is available now."""
        state = self._state
        waiting = self._waiting.get("" if state.static is None else holder)
        if not waiting:
            return None
        # The history stays until the piece is done: tries and failures are counted over all of its leases.
        _, piece = heapq.heappop(waiting)
        history = state.history.get(piece, History())
        lease = Lease(number=state.next_lease, piece=piece, skip=history.rows, attempt=history.tries + 1)
        state.next_lease += 1
        state.held[lease.number] = Held(lease=lease, holder=holder, rows=lease.skip)
        return lease

    def progress(self, lease: int, rows: int) -> None:
        """Report rows of the piece as done. For a lease that was lost, this only counts rows that are trained twice."""
        state = self._state
        held = state.held.get(lease)
        if held is not None:
            # Trainers and servers report the same lease, and a request may be retried: an older count must not win.
            state.held[lease] = replace(held, rows=max(held.rows, rows))
        # An unknown lease (finished, set aside, of an earlier table) has no entry: `rows > rows` counts nothing.
        elif rows > state.late.get(lease, rows):
            state.repeated_rows += rows - state.late[lease]
            state.late[lease] = rows

    def finish(self, lease: int, rows: int) -> bool:
        """Report a piece as done, with its number of rows. False if the lease was lost: others read the piece then."""
        state = self._state
        # Before the lease is removed: the last rows are then counted in one place, as done or as trained twice.
        self.progress(lease, rows)
        held = state.held.pop(lease, None)
        if held is None:
            # The holder will report no more under this lease; a retry of this call then counts no row again.
            state.late.pop(lease, None)
            return False
        state.done.add(held.lease.piece)
        state.done_rows += held.rows
        state.history.pop(held.lease.piece, None)
        return True

    def lose(self, holder: str, *, done: Mapping[int, int], blame: bool = True) -> list[Lost]:
        """Take back all leases of a holder. `done` is rows by lease, where more is known than `progress` reported.

        `blame=False` is for a holder that leaves in order: it does not count against the piece.
        """
        # A list, since `_give_back` removes entries from `held`.
        gone = [held for held in self._state.held.values() if held.holder == holder]
        return [
            self._give_back(held, rows=done.get(held.lease.number, held.rows), blame=blame, reason=f"{holder} was lost")
            for held in gone
        ]

    def fail(self, lease: int, *, reason: str) -> None:
        """Give back a piece that its holder could not read; pieces that have not failed are given out before it."""
        held = self._state.held.get(lease)
        if held is not None:
            # Counted first: `_give_back` puts the piece into the heap, whose order depends on the number of failures.
            self._state.history.setdefault(held.lease.piece, History()).failures += 1
            self._give_back(held, rows=held.rows, blame=True, reason=reason)

    def _give_back(self, held: Held, *, rows: int, blame: bool, reason: str) -> Lost:
        state, lease = self._state, held.lease
        if rows < 0:
            raise ValueError(f"lease {lease.number} cannot have {rows} rows done")
        del state.held[lease.number]
        history = state.history.setdefault(lease.piece, History())
        # May be less than the holder has reported: rows whose gradients did not reach all servers are trained again.
        history.rows = rows
        history.tries += blame
        # After so many failures the piece itself is the suspect: it is not given out again.
        aside = history.tries >= state.attempts
        # No holder resumes a piece that is set aside, so none of its rows is trained twice.
        repeated = 0 if aside else max(held.rows - rows, 0)
        if aside:
            state.set_aside[lease.piece] = reason
        else:
            state.repeated_rows += repeated
            # The holder may be alive and report more: those rows are trained twice, and counted in `progress`.
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
        # A piece that was lost and is held again is in both: `held` wins, since its rows include the skipped ones.
        return state.done_rows + sum((begun | held).values())

    @property
    def repeated_rows(self) -> int:
        """Rows that were trained again after a lease was lost: a row trained three times counts twice."""
        return self._state.repeated_rows

    @property
    def next_lease(self) -> int:
        """The number of the next lease: `first` of the table that follows."""
        return self._state.next_lease

    def to_dict(self) -> SavedLeases:
        """As JSON holds it: short, however many pieces are done."""
        return self._state.to_dict()

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], *, first: int = 1) -> LeaseTable:
        """From what `to_dict` returned. Leases are numbered from `first` on, or from the saved number if larger."""
        table = cls(0, attempts=1)
        table._state = State.from_dict(values)
        # A saved table may be older than leases that were given out after it: their numbers must not be used again.
        table._state.next_lease = max(table._state.next_lease, first)
        # The heaps of waiting pieces are not saved: they follow from what is neither done, set aside nor held.
        table.assign(table._state.static)
        return table
