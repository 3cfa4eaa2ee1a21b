"""A process's tie to the coordinator: joining, signs of life, and hearing what everybody should do.

Signs of life go on a way of their own, so a long wait on the other one is never taken for death. The coordinator
answers one at once when it has something to say, else after a heartbeat: that is how a pause or a stop reaches
everybody quickly.

A process that was replaced by another of its name is told so by whatever answer comes next, and raises ReplacedError.
Answers of a coordinator that was itself replaced are not believed: each carries the number of its coordinator.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from numpy.typing import NDArray

from clickline import _native
from clickline.config.cluster import Cluster
from clickline.errors import PeerError, ReplacedError
from clickline.processes.process_identity import birth, machine, proven_dead
from clickline.ps.messages import pack, unpack

log = logging.getLogger("clickline.cluster")
_FAREWELL = 2.0
"""Seconds to wait for somebody to say goodbye to."""
_AGAIN = 0.2
"""Seconds between two questions where the answer was of no use."""


class Member:
    """This process as the coordinator knows it."""

    def __init__(
        self, *, role: str, rank: int, coordinator: str, token: bytes, job: str, cluster: Cluster, address: str = ""
    ) -> None:
        self.role, self.rank = role, rank
        self.name = f"{role}.{rank}"
        self.client = secrets.randbits(62) + 1
        self._cluster = cluster
        self._introduction: dict[str, Any] = {
            "role": role,
            "rank": rank,
            "client": self.client,
            "address": address,
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "machine": machine(),
            "born": birth(os.getpid()),
            "incarnation": 0,
        }
        self._coordinator = coordinator
        self.writer_epoch = 0
        """Of the newest coordinator that has answered."""
        self._servers_version = ""
        self._servers: list[tuple[int, str, int]] = []
        self._on_servers: Callable[[list[tuple[int, str, int]]], None] = lambda servers: None
        self._hearing = threading.Lock()
        self._lane = partial(_native.Lane, [coordinator], token=token, job=job, name=self.name, client=self.client)
        self._lanes: list[_native.Lane] = [
            self._lane(lane=lane, deadline=cluster.deadline, retry_for=cluster.retry_for) for lane in (1, 2)
        ]
        self._stopped = threading.Event()
        self._beating: threading.Thread | None = None
        self.stats: Callable[[], dict[str, Any]] = dict
        """Asked at every sign of life."""
        self.told: dict[str, Any] = {}
        """What the coordinator said last: pause, stop, generation."""
        self.failure: Exception | None = None
        self.on_stop: Callable[[], None] = lambda: None

    def introduce(self, **facts: Any) -> None:
        """What to say of oneself when a new coordinator asks who this is."""
        self._introduction |= facts

    def join(self) -> dict[str, Any]:
        """Introduce this process; wait until the coordinator has a place for it. Returns what it should know."""
        patience = self._cluster.start_timeout
        deadline = time.monotonic() + patience
        door = self._lane(lane=6, deadline=self._cluster.deadline, retry_for=patience)
        try:
            name = _AwaitedName(self.name, self._cluster)
            while True:
                reply, _ = self._call(door, "join", self._introduction)
                if held := reply.get("held"):
                    self.introduce(seen_dead=name.awaited(held))
                    continue
                if over := reply.get("over"):
                    self.told = {"stop": over}  # as if it had been here to hear it: that is no failure
                    raise PeerError(f"{self.name} came when the run was ending: {over}")
                if not reply.get("wait"):
                    break
                if time.monotonic() > deadline:
                    raise PeerError(
                        f"{self.name} waited {patience:.0f} s for {reply['wait']}: is it running? "
                        "cluster.start_timeout sets how long to wait"
                    )
        finally:
            door.close()
        self.introduce(again=True, incarnation=reply["incarnation"])
        self._hear_of_servers(reply)
        if self._beating is None:
            self.told = {"generation": reply.get("generation", 0)}
            self._beating = threading.Thread(target=self._beat, name="clickline-beat", daemon=True)
            self._beating.start()
        return reply

    def ask(
        self,
        op: str,
        facts: Mapping[str, Any],
        arrays: Mapping[str, NDArray[Any]] | None = None,
        *,
        once: bool = False,
        patience: float | None = None,
    ) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Ask the coordinator something; `patience` is how long the answer itself may take."""
        deadline = max(self._cluster.deadline, (patience or 0) + 10)
        return self._call(self._lanes[0], op, facts, arrays, once=once, deadline=deadline)

    def _call(
        self,
        lane: _native.Lane,
        op: str,
        facts: Mapping[str, Any],
        arrays: Mapping[str, NDArray[Any]] | None = None,
        **options: Any,
    ) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The answer of the coordinator that counts. Raises ReplacedError if this process does not count any more."""
        until = time.monotonic() + self._cluster.retry_for
        while True:
            body = pack({**facts, "writer_epoch": self.writer_epoch}, arrays)
            reply, answered = unpack(lane.call(op, [body], **options)[0])
            epoch = reply.get("writer_epoch", 0)
            if epoch >= self.writer_epoch and not reply.get("overtaken"):
                self.writer_epoch = epoch
                if "replaced" in reply:
                    raise ReplacedError(reply["replaced"])
                return reply, answered
            if time.monotonic() > until:
                raise PeerError(
                    f"{self._coordinator} is answered by a coordinator that was replaced (number {epoch}; number "
                    f"{self.writer_epoch} has answered before): stop it, or see that the address leads to the new one"
                )
            lane.set_address(0, self._coordinator, reconnect=True)
            self._stopped.wait(_AGAIN)

    def follow_servers(self, tell: Callable[[list[tuple[int, str, int]]], None]) -> None:
        """Have rank, address and incarnation of the servers told, now and whenever one has moved or was replaced."""
        with self._hearing:
            self._on_servers = tell
            tell(self._servers)

    def _hear_of_servers(self, reply: Mapping[str, Any]) -> None:
        if servers := reply.get("servers"):
            with self._hearing:
                self._servers_version = servers["version"]
                self._servers = [(rank, address, incarnation) for rank, address, incarnation in servers["by_rank"]]
                self._on_servers(self._servers)

    @property
    def stopping(self) -> str | None:
        """Why to stop, if so."""
        reason: str | None = self.told.get("stop")
        return reason

    def leave(self) -> None:
        """Say goodbye and close. A coordinator that is gone is not waited for, as it would be while there is work."""
        self._stopped.set()
        if not self._lanes:
            return
        if self.failure is None:
            farewell = self._lane(lane=5, deadline=_FAREWELL, retry_for=_FAREWELL)
            with suppress(PeerError):  # nobody there to take leave of
                farewell.call("leave", [pack({"client": self.client})])
            farewell.close()
        for lane in self._lanes:
            lane.cancel()
        if self._beating is not None:
            self._beating.join(5.0)
        for lane in self._lanes:
            lane.close()

    def _beat(self) -> None:
        version = -1
        try:
            while not self._stopped.is_set():
                facts = {
                    "client": self.client,
                    "heard": version,
                    "stats": self.stats(),
                    "servers": self._servers_version,
                }
                reply, _ = self._call(self._lanes[1], "beat", facts)
                if reply.get("unknown"):  # a new coordinator, or one that gave us up
                    self._call(self._lanes[1], "join", self._introduction)
                    continue
                version = reply["version"]
                self._hear_of_servers(reply)
                self.told = reply
                if reply.get("stop"):
                    self.on_stop()
                    return
        except Exception as error:
            if not self._stopped.is_set():
                self.failure = error
                if isinstance(error, ReplacedError):
                    log.error("%s; this process, number %d, ends", error, os.getpid())
                else:
                    log.error("lost the coordinator: %s", error)
                self.on_stop()


class _AwaitedName:
    """A name that another process holds: whether and for how long to wait for it."""

    def __init__(self, name: str, cluster: Cluster) -> None:
        self._name, self._cluster = name, cluster
        self._since = time.monotonic()
        self._said = 0

    def awaited(self, held: Mapping[str, Any]) -> int:
        """The holder's client number if it is seen to be dead from here, else 0. Raises once it is sure to live.

        A holder that had died before this one was started is silent from then on, but for an answer that may have
        been under way. So whoever is heard of later than that lives.
        """
        if proven_dead(on=held["machine"], pid=held["pid"], born=held["born"]):
            log.info("%s was process %d, which has ended", self._name, held["pid"])
            return int(held["client"])
        who = f"{self._name} is process {held['pid']} on {held['host']}, heard of {held['silent']:.1f} s ago"
        if time.monotonic() - self._since > 2 * self._cluster.warn_after + 4 * self._cluster.heartbeat:
            raise ReplacedError(
                f"{who}: it lives, and there can be one {self._name}; stop that process, or give this one another rank"
            )
        if self._said != held["client"]:
            self._said = held["client"]
            log.warning("%s; waiting until it has been silent for %g s", who, held["warn_after"])
        return 0
