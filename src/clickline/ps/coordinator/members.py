"""Who takes part: every process that joined, when it was last heard of, and what it said.

Slow is not dead: a silent process is first reported as slow, and given up only much later, or when whoever started it
says that it is gone.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from clickline.config.cluster import Cluster


@dataclass
class Peer:
    """A process that joined."""

    role: str
    rank: int
    client: int
    address: str
    heard: float
    ready: bool = False
    """Servers: has loaded what it should serve."""
    state: str = "well"
    """well, slow, dead, or done."""
    stats: dict[str, Any] = field(default_factory=dict)
    pid: int = 0
    host: str = ""
    incarnation: int = 0
    """Counts the processes that have had this name."""

    @property
    def name(self) -> str:
        return f"{self.role}.{self.rank}"

    @property
    def holder(self) -> str:
        """Who holds a lease: this process, not the next one of its name."""
        return f"{self.name} ({self.client:x})"

    @staticmethod
    def client_of(holder: str) -> int | None:
        """The client number in a `holder`; None in lockstep, where a name alone holds leases."""
        number = holder.rpartition("(")[2]
        return int(number[:-1], 16) if number.endswith(")") else None

    @property
    def lost(self) -> int:
        """Servers: pushes that it says were lost."""
        return int(self.stats.get("counters", {}).get("lost", 0))


class Roster:
    """All peers by client number. Not locked: its owner is."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.peers: dict[int, Peer] = {}
        self.restarts = 0
        """Processes that came in the place of one of the same name."""

    def add(self, facts: dict[str, Any], *, incarnation: int = 0) -> tuple[Peer, Peer | None]:
        """A process that introduces itself, and the one of the same name that it replaces, if any."""
        known = self.peers.get(facts["client"])
        old = self.named(facts["role"], facts["rank"])
        peer = known or Peer(facts["role"], facts["rank"], facts["client"], facts["address"], time.monotonic())
        peer.heard, peer.state, peer.address = time.monotonic(), "well", facts["address"]
        peer.pid, peer.host, peer.incarnation = facts["pid"], facts["host"], incarnation
        if old is not None and old is not peer:
            del self.peers[old.client]
            self.restarts += 1
        self.peers[peer.client] = peer
        return peer, old if old is not peer else None

    def named(self, role: str, rank: int) -> Peer | None:
        return next((p for p in self.peers.values() if (p.role, p.rank) == (role, rank)), None)

    def hear(self, client: int, stats: dict[str, Any]) -> Peer | None:
        peer = self.peers.get(client)
        if peer is None or peer.state == "dead":
            return None
        peer.heard, peer.stats = time.monotonic(), stats
        if peer.state != "done":  # a sign of life may be answered after the farewell
            peer.state = "well"
        return peer

    def lives(self, peer: Peer) -> bool:
        """Whether this very process takes part: it may have died, or been replaced, while its question waited."""
        return self.peers.get(peer.client) is peer and peer.state != "dead"

    def live(self, role: str | None = None) -> list[Peer]:
        """Of a role, or all; by rank."""
        found = [p for p in self.peers.values() if role in (None, p.role) and p.state != "dead"]
        return sorted(found, key=lambda p: p.rank)

    def watch(self) -> tuple[list[Peer], list[Peer]]:
        """Those that have just become slow, and those that have been silent for too long."""
        slow, dead = [], []
        for peer in self.peers.values():
            silent = time.monotonic() - peer.heard
            if peer.state == "well" and silent > self._cluster.warn_after:
                peer.state = "slow"
                slow.append(peer)
            elif peer.state == "slow" and silent > self._cluster.evict_after:
                dead.append(peer)
        return slow, dead

    def to_list(self) -> list[dict[str, Any]]:
        """For those who watch."""
        now = time.monotonic()
        return [
            {
                "role": p.role,
                "rank": p.rank,
                "name": p.name,
                "state": "joining" if p.role == "pserver" and p.state == "well" and not p.ready else p.state,
                "silent": round(now - p.heard, 1),
                "pid": p.pid,
                "host": p.host,
                "incarnation": p.incarnation,
                "address": p.address,
                **p.stats,
            }
            for p in sorted(self.peers.values(), key=lambda p: (p.role, p.rank))
        ]
