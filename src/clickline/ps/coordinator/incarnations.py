"""Which process is the one of its name: every process that joins gets an incarnation, and the highest of a name counts.

A name (`trainer.0`) belongs to one process at a time. Another one of that name gets it when the holder is known to be
dead or has been silent for `cluster.warn_after`; until then it is refused, and told who holds the name. The process
that lost its name is told so whatever it asks, and ends: were it to join again, the two would take turns.

The last incarnation of every name is part of the standing, so that a new coordinator knows a process that was replaced
before its time.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from typing import Any

from clickline.config.cluster import Cluster
from clickline.ps.coordinator.members import Peer, Roster

_REMEMBERED = 4096
"""Replaced processes that are remembered by their client number; older ones are known by their incarnation."""
_IDENTITY = ("client", "host", "pid", "machine", "born")


class Incarnations:
    """Not locked: its owner is."""

    def __init__(self, *, cluster: Cluster, roster: Roster, records: Callable[[], dict[str, dict[str, Any]]]) -> None:
        """`records` gives the standing's own, by name: the last incarnation and the process that has it."""
        self._cluster, self._roster, self._records = cluster, roster, records
        self._opened = time.monotonic()
        self._replaced: dict[int, str] = {}
        self._taking_over = False

    def open(self, *, taking_over: bool) -> None:
        """Processes may join from here on. Unless a coordinator takes over, those of an earlier run may not."""
        self._opened, self._taking_over = time.monotonic(), taking_over
        if not taking_over:
            for name, record in self._records().items():
                if record["client"]:
                    self.retire(record["client"], f"{name} was replaced: it is of another run")
                record["incarnation"] += 1
                record["client"] = 0

    def replacement_of(self, client: int) -> str | None:
        """Who has the place of this client, in words; None if it was not replaced."""
        return self._replaced.get(client)

    def admitted(self, client: int) -> bool:
        """Whether this client has joined the run, be it a coordinator before this one that let it in.

        Another run may have used this address, token and name a moment ago, with leases and generations of the same
        numbers: what its trainers still have to say must not count here.
        """
        return client in self._roster.peers or any(record["client"] == client for record in self._records().values())

    @property
    def replaced(self) -> list[int]:
        """Clients of which nothing is to be executed any more."""
        return list(self._replaced)

    def retire(self, client: int, why: str) -> None:
        """This client is never to come back."""
        self._replaced[client] = why
        while len(self._replaced) > _REMEMBERED:
            del self._replaced[next(iter(self._replaced))]

    def refusal(self, facts: dict[str, Any]) -> dict[str, Any] | None:
        """Why a process may not join, now or ever; None if it may."""
        name, client, given = f"{facts['role']}.{facts['rank']}", facts["client"], facts.get("incarnation", 0)
        if client in self._replaced:
            return {"replaced": self._replaced[client]}
        record = self._records().get(name)
        holder = self._roster.named(facts["role"], facts["rank"])
        if holder is not None and holder.client == client:
            return None
        last = 0 if record is None else record["incarnation"]
        if given:
            taken = holder is not None and holder.state != "dead"
            if given < last or (given == last and taken) or (given > last and not self._taking_over):
                other = f"its incarnation {given} was followed by {last}" if given <= last else "it is of another run"
                return {"replaced": f"{name} was replaced: {other}{_where(record)}"}
            return None
        if record is None or not record["client"] or (holder is not None and holder.state in ("dead", "done")):
            return None
        silent = time.monotonic() - (self._opened if holder is None else holder.heard)
        if holder is None and not self._taking_over:
            return None
        if facts.get("seen_dead") == record["client"] or _this_process(facts) or silent >= self._cluster.warn_after:
            return None
        held = {key: record[key] for key in _IDENTITY}
        return {"held": {**held, "name": name, "silent": round(silent, 2), "warn_after": self._cluster.warn_after}}

    def admit(self, facts: dict[str, Any]) -> tuple[int, bool]:
        """The incarnation of a process that may join, and whether it is a new one. Its predecessor is replaced."""
        name, given = f"{facts['role']}.{facts['rank']}", facts.get("incarnation", 0)
        records = self._records()
        record = records.get(name)
        if record is not None and record["client"] == facts["client"]:
            return record["incarnation"], False
        if given == 0:
            given = 1 if record is None else record["incarnation"] + 1
        records[name] = {"incarnation": given, **{key: facts.get(key, 0) for key in _IDENTITY}}
        if record is not None and record["client"]:
            self.retire(record["client"], f"{name} was replaced by incarnation {given}{_where(records[name])}")
        return given, True


def describe(peer: Peer) -> str:
    return f"process {peer.pid} on {peer.host}"


def _where(record: dict[str, Any] | None) -> str:
    return f", process {record['pid']} on {record['host']}" if record is not None and record.get("pid") else ""


def _this_process(facts: dict[str, Any]) -> bool:
    """A server in the coordinator's own process: the one before it ended with the coordinator before this one."""
    return bool(facts["pid"] == os.getpid() and facts["host"] == socket.gethostname())
