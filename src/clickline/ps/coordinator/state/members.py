"""The processes that take part: every one that joined, when it was last heard of, and what it reported.

Slow is not dead: a silent process is first reported as slow, and given up only much later, or when whoever started it
reports that it has ended.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from enum import StrEnum

from clickline.config.cluster import Cluster
from clickline.ps.protocol.member_messages import Figures, JoinRequest


class MemberState(StrEnum):
    """As status.json shows it."""

    WELL = "well"
    SLOW = "slow"
    """Silent for longer than `cluster.warn_after`."""
    DEAD = "dead"
    DONE = "done"
    """It has left because the run is over."""


@dataclass
class Member:
    """A process that joined."""

    role: str
    rank: int
    client: int
    address: str
    heard: float
    """When its last heartbeat came, by the monotonic clock."""
    ready: bool = False
    """Servers: has loaded what it should serve."""
    sees_directory: bool = True
    """Servers: reads and writes checkpoints in the run's directory."""
    state: MemberState = MemberState.WELL
    stats: Figures = field(default_factory=dict)
    pid: int = 0
    host: str = ""
    node: int = 0
    """Trainers: the node whose data it reads, if nodes have data of their own."""
    incarnation: int = 0
    """Counts the processes that have had this name."""
    leaving: bool = False
    """It was told that the run is over, so its end is not a failure."""

    @property
    def name(self) -> str:
        return f"{self.role}.{self.rank}"

    @property
    def holder(self) -> str:
        """The name under which it holds leases: of this process, not of the next one of its name."""
        return f"{self.name} ({self.client:x})"

    @staticmethod
    def client_of(holder: str) -> int | None:
        """The client number in a `holder`; None in lockstep, where a name alone holds leases."""
        number = holder.rpartition("(")[2]
        return int(number[:-1], 16) if number.endswith(")") else None

    @property
    def lost_pushes(self) -> int:
        """Servers: pushes that it reports as lost."""
        counters = self.stats.get("counters")
        return counters.get("lost", 0) if isinstance(counters, dict) else 0

    @property
    def retries(self) -> int:
        """Trainers: requests that it had to send again."""
        retries = self.stats.get("retries", 0)
        return int(retries) if isinstance(retries, int | float) else 0

    @property
    def process(self) -> str:
        """For messages: which process it is."""
        return f"process {self.pid} on {self.host}"

    def to_status(self, now: float) -> dict[str, object]:
        """Its entry in status.json."""
        joining = self.role == "pserver" and self.state == MemberState.WELL and not self.ready
        return {
            "role": self.role,
            "rank": self.rank,
            "name": self.name,
            "state": "joining" if joining else self.state.value,
            "silent": round(now - self.heard, 1),
            "pid": self.pid,
            "host": self.host,
            "node": self.node,
            "incarnation": self.incarnation,
            "address": self.address,
            **self.stats,
        }


class RunMembers:
    """All members by client number. Not locked: the run's state, which owns it, is."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.by_client: dict[int, Member] = {}
        self.restarts = 0
        """Processes that came in the place of one of the same name."""

    def add(self, request: JoinRequest, *, incarnation: int = 0) -> tuple[Member, Member | None]:
        """Add a process; returns it, and the one of the same name that it replaces, if any."""
        known = self.by_client.get(request.client)
        old = self.named(request.role, request.rank)
        member = known or Member(request.role, request.rank, request.client, request.address, time.monotonic())
        member.heard, member.state, member.address = time.monotonic(), MemberState.WELL, request.address
        member.pid, member.host, member.incarnation = request.pid, request.host, incarnation
        member.node = request.node
        if old is not None and old is not member:
            del self.by_client[old.client]
            self.restarts += 1
        self.by_client[member.client] = member
        return member, old if old is not member else None

    def named(self, role: str, rank: int) -> Member | None:
        return next((m for m in self.by_client.values() if (m.role, m.rank) == (role, rank)), None)

    def living(self, client: int) -> Member | None:
        """The member of this client number, unless it is dead."""
        member = self.by_client.get(client)
        return None if member is None or member.state == MemberState.DEAD else member

    def heartbeat(self, member: Member, stats: Figures) -> None:
        """Note that a member was heard of."""
        member.heard, member.stats = time.monotonic(), stats
        if member.state != MemberState.DONE:  # a heartbeat may be answered after the process has left
            member.state = MemberState.WELL

    def lives(self, member: Member) -> bool:
        """Whether this very process takes part: it may have died, or been replaced, while its request waited."""
        return self.by_client.get(member.client) is member and member.state != MemberState.DEAD

    def live(self, role: str | None = None) -> list[Member]:
        """Members of a role, or all, that are not dead; by rank."""
        members = [m for m in self.by_client.values() if role in (None, m.role) and m.state != MemberState.DEAD]
        return sorted(members, key=lambda m: m.rank)

    def check_silence(self) -> tuple[list[Member], list[Member]]:
        """Those that have just become slow, and those that have been silent for too long."""
        slow, dead = [], []
        for member in self.by_client.values():
            # A member is never given up in the turn in which it is found slow: after a standstill of the coordinator,
            # when all seem silent, the heartbeats that have queued up have one more turn to be processed.
            silent = time.monotonic() - member.heard
            if member.state == MemberState.WELL and silent > self._cluster.warn_after:
                member.state = MemberState.SLOW
                slow.append(member)
            elif member.state == MemberState.SLOW and silent > self._cluster.evict_after:
                dead.append(member)
        return slow, dead

    def to_status(self) -> list[dict[str, object]]:
        """Their entries in status.json."""
        now = time.monotonic()
        return [m.to_status(now) for m in sorted(self.by_client.values(), key=lambda m: (m.role, m.rank))]
