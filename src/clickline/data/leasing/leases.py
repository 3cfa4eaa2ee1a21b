"""The lease table: which trainer reads which piece of the data. No clock, no files, no network.

A piece is waiting, held under a lease, done, or set aside. Whom it waits for is said by ranges of pieces: anybody,
trainers of one node, trainers by name, or nobody any more, until somebody comes back. A lease that is lost gives its
piece back, to be resumed after the rows that are known to be in the model. A piece whose readers keep failing is set
aside, so that one bad file cannot take down trainers for ever. Rows are counted from the beginning of a piece, skipped
ones included.

Beware: a lease's number tells late messages from current ones, so it must not be used twice in a run. A table for the
next epoch, or one restored from an earlier state, is given the next number (`first`).
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

from clickline.data.leasing.lease_state import (
    Held,
    History,
    Lease,
    Lost,
    PieceRange,
    SavedLeases,
    State,
    check_ranges,
)

__all__ = ["Held", "Lease", "LeaseTable", "Lost", "PieceRange"]
_Lane = str | int | None
"""Whom pieces wait for: a holder by name, a node, or anybody."""


class LeaseTable:
    """The pieces of one epoch. `ranges` say whom each is for; without, any holder may take any."""

    def __init__(
        self, pieces: int, *, attempts: int, ranges: Sequence[PieceRange] | None = None, first: int = 1
    ) -> None:
        for name, value, least in (("pieces", pieces, 0), ("attempts", attempts, 1), ("first", first, 1)):
            if value < least:
                raise ValueError(f"argument '{name}' must be at least {least} but got {value}")
        self._state = State(pieces=pieces, attempts=attempts, next_lease=first, ranges=[])
        self.assign(ranges)

    def assign(self, ranges: Sequence[PieceRange] | None) -> None:
        """Reassign the pieces that are not held; None lets any holder take any."""
        state = self._state
        ranges = [PieceRange(state.pieces)] if ranges is None else list(ranges)
        check_ranges(ranges, pieces=state.pieces)
        state.ranges = ranges
        self._ends = list(accumulate(each.pieces for each in ranges))
        self._waiting: dict[_Lane, list[tuple[int, int]]] = {}
        self._unreachable: set[int] = set()
        held = {held.lease.piece for held in state.held.values()}
        for piece in range(state.pieces):
            if piece not in state.done and piece not in state.set_aside and piece not in held:
                self._wait(piece)

    def take(self, holder: str, *, node: int = 0) -> Lease | None:
        """A lease of the next piece for a holder, which may have several; None if no piece is available now."""
        state = self._state
        # Pieces that only this holder may take come first, those that anybody may take last.
        lanes: tuple[_Lane, ...] = (holder, node, None)
        waiting = next((self._waiting[lane] for lane in lanes if self._waiting.get(lane)), None)
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
        node = self.range_of(held.lease.piece).node
        if node is not None:
            state.node_rows[node] = state.node_rows.get(node, 0) + held.rows
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
        state, each = self._state, self.range_of(piece)
        if each.given_up:
            self._unreachable.add(piece)
            return
        lane: _Lane = each.node
        if each.names is not None:
            lane = each.names[(piece - self._ends[self._place(piece)] + each.pieces) % len(each.names)]
        history = state.history.get(piece)
        heapq.heappush(self._waiting.setdefault(lane, []), (history.failures if history else 0, piece))

    def _place(self, piece: int) -> int:
        return bisect_right(self._ends, piece)

    def range_of(self, piece: int) -> PieceRange:
        """The range that a piece is in."""
        return self._state.ranges[self._place(piece)]

    @property
    def ranges(self) -> tuple[PieceRange, ...]:
        """Whom the pieces are for."""
        return tuple(self._state.ranges)

    @property
    def unreachable(self) -> frozenset[int]:
        """Pieces that are not done and that nobody is left for."""
        return frozenset(self._unreachable)

    @property
    def complete(self) -> bool:
        """Whether every piece is done or set aside, or nobody is left for it."""
        return self.done + len(self._state.set_aside) + len(self._unreachable) == self._state.pieces

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

    def rows_by_node(self) -> dict[int, int]:
        """The same by node, for those that have pieces of their own."""
        state = self._state
        rows = {each.node: 0 for each in state.ranges if each.node is not None} | state.node_rows
        begun = {piece: history.rows for piece, history in state.history.items()}
        for piece, done in (begun | {held.lease.piece: held.rows for held in state.held.values()}).items():
            node = self.range_of(piece).node
            if node is not None:
                rows[node] += done
        return rows

    def rows_begun(self, piece: int) -> int:
        """Rows known to be done of a piece that is not finished and not held."""
        history = self._state.history.get(piece)
        return 0 if history is None else history.rows

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
        table.assign(table._state.ranges)
        return table
