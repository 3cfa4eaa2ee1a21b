"""Incarnations: every process that joins gets a number, and of all that had a name the highest counts.

A name (`trainer.0`) belongs to one process at a time. Another one of that name gets it when the holder is known to be
dead or has been silent for `cluster.warn_after`; until then it is refused, and told which process holds the name. The
process that lost its name is told so whatever it asks, and ends: were it to join again, the two would take turns.

The last incarnation of every name is part of the run's record, so that a new coordinator knows a process that was
replaced before its time.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

from clickline.config.cluster import Cluster
from clickline.ps.coordinator.state.members import MemberState, RunMembers
from clickline.ps.coordinator.state.record import IncarnationRecord
from clickline.ps.protocol.member_messages import JoinRequest, NameHolder
from clickline.ps.protocol.refusals import ErrorCode, Refusal

_REMEMBERED = 4096
"""Replaced processes that are remembered by their client number; earlier ones are known by their incarnation."""


@dataclass(frozen=True, slots=True)
class JoinRefusal:
    """Why a process may not join."""

    refusal: Refusal
    holder: NameHolder | None = None
    """The process that has the name, if that is why."""


class Incarnations:
    """Not locked: the run's state, which owns it, is."""

    def __init__(
        self, *, cluster: Cluster, members: RunMembers, records: Callable[[], dict[str, IncarnationRecord]]
    ) -> None:
        """`records` gives those of the run's record, by name: the last incarnation and the process that has it."""
        self._cluster, self._members, self._records = cluster, members, records
        self._opened = time.monotonic()
        self._replaced: dict[int, str] = {}
        self._taking_over = False

    def open(self, *, taking_over: bool) -> None:
        """Processes may join from here on. Unless a coordinator takes over, those of an earlier run may not."""
        self._opened, self._taking_over = time.monotonic(), taking_over
        if not taking_over:
            # Numbers go on counting, so that a process of the earlier run, whose number is lower, is recognised.
            for name, record in self._records().items():
                if record.client:
                    self.retire(record.client, f"{name} was replaced: it is of another run")
                record.incarnation += 1
                record.client = 0

    def replacement_of(self, client: int) -> str | None:
        """Why this client does not count any more, for people; None if it was not replaced."""
        return self._replaced.get(client)

    def admitted(self, client: int) -> bool:
        """Whether this client has joined the run, be it with a coordinator before this one.

        Another run may have used this address, token and name a moment ago, with leases and generations of the same
        numbers: what its trainers still have to report must not count here.
        """
        return client in self._members.by_client or any(record.client == client for record in self._records().values())

    @property
    def replaced(self) -> list[int]:
        """Clients of which nothing is to be executed any more."""
        return list(self._replaced)

    def retire(self, client: int, why: str) -> None:
        """Never admit this client again."""
        self._replaced[client] = why
        while len(self._replaced) > _REMEMBERED:
            del self._replaced[next(iter(self._replaced))]

    def refusal(self, request: JoinRequest) -> JoinRefusal | None:
        """Why a process may not join, now or ever; None if it may."""
        name, client = request.name, request.client
        if client in self._replaced:
            return _replaced(self._replaced[client])
        record = self._records().get(name)
        holder = self._members.named(request.role, request.rank)
        if holder is not None and holder.client == client:
            return None
        last = 0 if record is None else record.incarnation
        if request.incarnation:
            # It has joined before, and its number tells whether another process has had the name since. A number that
            # is higher than the record's is from a coordinator before this one, if this one has taken over.
            given = request.incarnation
            taken = holder is not None and holder.state != MemberState.DEAD
            if given < last or (given == last and taken) or (given > last and not self._taking_over):
                other = f"its incarnation {given} was followed by {last}" if given <= last else "it is of another run"
                return _replaced(f"{name} was replaced: {other}{_where(record)}")
            return None
        if record is None or not record.client:
            return None
        if holder is not None and holder.state in (MemberState.DEAD, MemberState.DONE):
            return None
        if holder is None and not self._taking_over:
            return None
        # The name has a holder that may be alive. With a coordinator that took over, it may only be slow to find it.
        silent = time.monotonic() - (self._opened if holder is None else holder.heard)
        if request.seen_dead == record.client or _this_process(request) or silent >= self._cluster.warn_after:
            return None
        return JoinRefusal(
            Refusal(ErrorCode.NAME_HELD, f"{name} is held by process {record.pid} on {record.host}"),
            NameHolder(
                client=record.client,
                host=record.host,
                pid=record.pid,
                machine=record.machine,
                born=record.born,
                silent=round(silent, 2),
                warn_after=self._cluster.warn_after,
            ),
        )

    def admit(self, request: JoinRequest) -> tuple[int, bool]:
        """The incarnation of a process that may join, and whether it is a new one. Its predecessor is replaced."""
        name, given = request.name, request.incarnation
        records = self._records()
        record = records.get(name)
        # The same process again: its reply was lost, or it was taken for dead, or the coordinator is new.
        if record is not None and record.client == request.client:
            return record.incarnation, False
        if given == 0:
            given = 1 if record is None else record.incarnation + 1
        records[name] = IncarnationRecord(
            incarnation=given,
            client=request.client,
            host=request.host,
            pid=request.pid,
            machine=request.machine,
            born=request.born,
        )
        if record is not None and record.client:
            self.retire(record.client, f"{name} was replaced by incarnation {given}{_where(records[name])}")
        return given, True


def _replaced(why: str) -> JoinRefusal:
    return JoinRefusal(Refusal(ErrorCode.PROCESS_REPLACED, why))


def _where(record: IncarnationRecord | None) -> str:
    return f", process {record.pid} on {record.host}" if record is not None and record.pid else ""


def _this_process(request: JoinRequest) -> bool:
    """A server in the coordinator's own process: the one before it ended with the coordinator before this one."""
    return request.pid == os.getpid() and request.host == socket.gethostname()
