"""Failures: processes that are gone, the leases that they had, and what was lost with them.

A trainer that dies leaves leases behind. They are given to others in two steps: its holder name is noted as orphaned
here, and the run's supervision then asks the servers how far its pushes have come, and returns the leases from there.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from clickline.ps.coordinator.state.members import Member, MemberState
from clickline.ps.coordinator.state.record import RunRecord

if TYPE_CHECKING:
    from clickline.ps.coordinator.state.run_state import RunState

log = logging.getLogger("clickline.coordinator")
LeaseRows = dict[int, tuple[int, int]]
"""Of each lease, the rows that have arrived at all servers, and those of which something has arrived anywhere."""
_MOST_FAULTS = 200
_LAST_TRAINER = "the last trainer"


class Failures:
    """What has failed so far. Not locked: the run's state, which owns it, is."""

    def __init__(self, record: RunRecord) -> None:
        self._record = record
        self.orphaned: dict[str, bool] = {}
        """Holders that are gone and whose leases have not been returned yet, and whether their pieces are to blame."""
        self.absent_since: dict[str, float] = {}
        """Servers that died and have not come back, and when they died."""
        self.departed: list[int] = []
        """Client numbers of trainers that died, until the servers have been told to forget them."""
        self._unreported: list[str] = []

    def note(self, text: str, *, reported: bool = False) -> None:
        """Keep a fault in the record and the log. `reported`: whoever watches the run has seen it already."""
        self._record.faults.append(text)
        del self._record.faults[:-_MOST_FAULTS]  # the whole record is written with every lease
        self._unreported += [] if reported else [text]
        log.info(text)

    def take_unreported(self) -> list[str]:
        """Faults that have not been shown yet."""
        unreported, self._unreported = self._unreported, []
        return unreported


class FailureDetector:
    """Notices processes that are gone, and decides what becomes of their work. It takes the state's lock itself."""

    def __init__(self, state: RunState) -> None:
        self._state = state

    def process_ended(self, role: str, rank: int, why: str, *, pid: int = 0) -> None:
        """A process has ended, as whoever started it reports; another one, alive, may have its name by now."""
        state = self._state
        with state.changed:
            member = state.members.named(role, rank)
            # A process that has joined is known by its pid; the end of an earlier one of the name is old news.
            if member is not None and pid in (0, member.pid):
                self.give_up(member, why, reported=True)
                state.incarnations.retire(member.client, f"{member.name} {why}")

    def check(self) -> None:
        """Notice members that are silent, and leases that nobody can finish."""
        state, cluster = self._state, self._state.job.cluster
        with state.changed:
            slow, dead = state.members.check_silence()
            for member in slow:
                log.warning("%s has been silent for %.0f s; slow is not dead, waiting", member.name, cluster.warn_after)
            for member in dead:
                self.give_up(member, f"was silent for {cluster.evict_after:.0f} s")
            self._find_orphaned_leases()
            for text in state.data.reconcile(state.leases.table, state.members.live("trainer")):
                state.failures.note(text)
                state.remember()
                state.announce()

    def _find_orphaned_leases(self) -> None:
        """Note leases whose holder is not a living member, whatever the cause: else an epoch would wait for ever."""
        state, failures = self._state, self._state.failures
        if not state.lifecycle.begun or state.lifecycle.stop_reason is not None:
            return
        living = {name for member in state.members.live("trainer") for name in (member.name, member.holder)}
        for holder in state.leases.holders - living - failures.orphaned.keys():
            if Member.client_of(holder) is None:  # lockstep, in which all go back when one is lost
                state.lifecycle.rollback_wanted |= not state.lifecycle.final
                continue
            log.warning("%s holds a lease and is not a living member: its pieces are given to others", holder)
            failures.orphaned[holder] = False

    def give_up(self, member: Member, why: str, *, reported: bool = False, blame: bool = True) -> None:
        """Take a member for dead. `blame`: the piece that it had counts a failed attempt. The caller has the lock."""
        state, failures, lifecycle = self._state, self._state.failures, self._state.lifecycle
        if member.state == MemberState.DEAD:
            return
        member.state, member.ready = MemberState.DEAD, False
        # It is not idle but gone: a snapshot waits until its leases are returned (`orphaned`), not for itself.
        state.snapshots.idle.discard(member.client)
        if lifecycle.stop_reason is not None or member.leaving:
            return
        failures.note(f"{member.name} {why}", reported=reported)
        # Its counters end here, so what they had reached goes into the record.
        state.record.lost_pushes += member.lost_pushes
        state.record.retries += member.retries
        member.stats = {}
        if member.role == "trainer":
            failures.orphaned[member.holder] = blame
            failures.departed.append(member.client)
            state.windows.reached.pop(member.client, None)
        else:
            failures.absent_since[member.name] = time.monotonic()
        if state.lockstep and not lifecycle.final and lifecycle.begun:
            lifecycle.rollback_wanted = True
        state.announce()

    def note_lost_pushes(self, member: Member, *, before: int) -> None:
        """Report pushes that a server has found missing since its last heartbeat. The caller has the lock."""
        lost = member.lost_pushes - before
        if lost > 0 and not self._state.lockstep:  # in lockstep all go back, so nothing is lost
            text = f"{member.name} lost {lost:,} pushes that were made after the checkpoint it came back with"
            self._state.failures.note(text)

    def longest_absent(self, patience: float) -> str | None:
        """A server that has been gone for longer than `patience`, or all trainers; None if nobody has."""
        state, absent, now = self._state, self._state.failures.absent_since, time.monotonic()
        with state.changed:
            if state.lifecycle.begun and not state.members.live("trainer"):
                absent.setdefault(_LAST_TRAINER, now)
            else:
                absent.pop(_LAST_TRAINER, None)
            return next((name for name, since in absent.items() if now - since > patience), None)

    def orphaned_holders(self) -> list[str]:
        """Holders whose leases are to be returned."""
        with self._state.changed:
            return list(self._state.failures.orphaned)

    def leases_of(self, holder: str) -> dict[int, int]:
        """The leases of a holder, and the rows at which each began."""
        with self._state.changed:
            return self._state.leases.held_by(holder)

    def give_up_missing_holders(self) -> None:
        """Give up holders of leases that have not joined a coordinator that took over, and was waiting for them."""
        state = self._state
        with state.changed:
            here = {member.holder for member in state.members.live("trainer")}
            for holder in state.leases.holders - here:
                state.failures.note(f"{holder} was gone when the new coordinator came")
                state.failures.orphaned[holder] = True
                # It may be alive behind a broken network, with leases of a coordinator that was cut off as well.
                if (client := Member.client_of(holder)) is not None:
                    state.incarnations.retire(client, f"{holder} was given up")

    def return_leases(self, holder: str, rows: LeaseRows) -> None:
        """Return the leases of a holder that is gone, to be resumed where its pushes had come at all servers."""
        state, failures, table = self._state, self._state.failures, self._state.leases.table
        with state.changed:
            # Rows of which something has arrived anywhere, beyond those that have arrived everywhere, will be trained
            # again by the next holder: the table counts them as repeated.
            for lease, (_, begun) in rows.items():
                table.progress(lease, begun)
            done = {lease: done for lease, (done, _) in rows.items()}
            for lost in table.lose(holder, done=done, blame=failures.orphaned.get(holder, True)):
                if lost.set_aside:
                    attempts = state.job.cluster.piece_attempts
                    text = f"piece {lost.piece} has taken down {attempts} trainers and is set aside"
                else:
                    text = f"piece {lost.piece} goes on at row {lost.rows:,} elsewhere, {lost.repeated:,} rows again"
                failures.note(f"{holder} is gone: {text}")
            failures.orphaned.pop(holder, None)
            state.remember()
            state.announce()

    def count_late_pushes(self, rows: LeaseRows) -> None:
        """Count what arrived at the servers from leases that had been returned by then: others trained it as well."""
        with self._state.changed:
            for lease, (_, begun) in rows.items():
                self._state.leases.table.progress(lease, begun)

    def take_departed(self) -> list[int]:
        """Clients that have died since this was called last, and cannot come back."""
        state, failures = self._state, self._state.failures
        with state.changed:
            # A client that was only silent may come back and send what it has; servers must know its numbers then.
            gone = [c for c in failures.departed if state.incarnations.replacement_of(c) is not None]
            failures.departed = [client for client in failures.departed if client not in gone]
            return gone
