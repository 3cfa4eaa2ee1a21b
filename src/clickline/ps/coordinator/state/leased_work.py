"""The pieces of data that trainers work on at the moment, and the leases under which they have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from clickline.data.leasing.leases import Lease, LeaseTable
from clickline.data.leasing.pieces import Piece
from clickline.ps.coordinator.state.record import RunRecord, SetAsidePiece
from clickline.ps.protocol.work_messages import Action


class LeasedWork:
    """The lease table of an epoch or an evaluation. Not locked: the run's state, which owns it, is."""

    def __init__(self, record: RunRecord) -> None:
        self._record = record
        self.table = LeaseTable(0, attempts=1)
        self.pieces: Sequence[Piece] = []
        self.offered: Action | None = None
        """What trainers that ask for work get leases for; None if they get none."""
        self.start_step = record.step
        """The step with which lockstep began, in this epoch or generation."""
        self._training = False
        """Whether the table is one of training, not of an evaluation."""

    def use(self, table: LeaseTable, *, training: bool) -> None:
        """Give leases of this table from here on."""
        self.table, self._training = table, training
        self.start_step = self._record.step

    def clear(self) -> None:
        """There is nothing to lease until another table is used."""
        self.table = LeaseTable(0, attempts=1)

    @property
    def trains(self) -> bool:
        """Whether there is a table of training that leases are given from."""
        table = self.table
        return self._training and bool(sum(each.pieces for each in table.ranges))

    @property
    def of_epoch(self) -> LeaseTable | None:
        """The table of the epoch, also of one that was not finished before an evaluation; None between epochs."""
        book = self._record.book
        if self.trains:
            return self.table
        return None if book is None else LeaseTable.from_dict(book)

    def finish(self) -> None:
        """The table is done: what it counted goes into the record."""
        record, table = self._record, self.table
        record.repeated_rows += table.repeated_rows
        record.set_aside += self.set_aside()
        record.next_lease = table.next_lease
        # From here on these rows are those of an earlier epoch, whatever the next table counts.
        self.count_rows()
        record.rows_before = record.rows
        self.clear()
        record.book = None

    def count_rows(self) -> None:
        """Have the record count rows as the table knows them.

        A trainer that died may not have reported all that it had pushed; the table has heard of it from the servers.
        """
        if self.trains:
            self._record.rows = self._record.rows_before + self.table.rows_done + self.table.repeated_rows

    def keep(self) -> None:
        """Copy the table into the record."""
        if self.trains:  # else it is finished, or one that everybody went back to has not been taken up yet
            self._record.book = self.table.to_dict()
        self._record.next_lease = max(self._record.next_lease, self.table.next_lease)

    def set_aside(self) -> list[SetAsidePiece]:
        """Pieces of the table that nobody reads any more."""
        return [
            {"piece": piece, "path": self.pieces[piece].path if piece < len(self.pieces) else "", "reason": reason}
            for piece, reason in self.table.set_aside.items()
        ]

    @property
    def holders(self) -> set[str]:
        """Everybody who holds a lease."""
        return {held.holder for held in self.table.active}

    def held_by(self, holder: str) -> dict[int, int]:
        """The rows at which each lease of a holder began."""
        return {held.lease.number: held.lease.skip for held in self.table.active if held.holder == holder}

    def unknown_to(self, holder: str, known: Sequence[int] | None) -> Lease | None:
        """A lease that the holder has without knowing, because the reply that brought it was lost."""
        if known is None:
            return None
        lost = next((h for h in self.table.active if h.holder == holder and h.lease.number not in known), None)
        return None if lost is None else replace(lost.lease, skip=lost.rows)

    def piece_of(self, lease: int) -> int | None:
        """The number of the piece under a lease; None if nobody holds the lease."""
        return next((held.lease.piece for held in self.table.active if held.lease.number == lease), None)

    @property
    def share_done(self) -> float | None:
        """How much of what is offered is done, by pieces."""
        return None if self.offered is None or not self.pieces else self.table.done / len(self.pieces)


def released(table: Mapping[str, Any], *, first: int) -> LeaseTable:
    """A saved table in which nobody holds anything, and nothing is for trainers by name or given up.

    Pieces that were held go on where the snapshot found them.
    """
    restored = LeaseTable.from_dict(table, first=first)
    for holder in {held.holder for held in restored.active}:
        restored.lose(holder, done={}, blame=False)
    restored.assign([replace(each, names=None, given_up=False) for each in restored.ranges])
    return restored
