"""A process's tie to the coordinator: joining, signs of life, and hearing what everybody should do.

Signs of life go on a way of their own, so a long wait on the other one is never taken for death. The coordinator
answers one at once when it has something to say, else after a heartbeat: that is how a pause or a stop reaches
everybody quickly.
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
from clickline.errors import PeerError
from clickline.ps.messages import pack, unpack

log = logging.getLogger("clickline.cluster")
_FAREWELL = 2.0
"""Seconds to wait for somebody to say goodbye to."""


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
        }
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
            while True:
                reply, _ = unpack(door.call("join", [pack(self._introduction)])[0])
                if not reply.get("wait"):
                    break
                if time.monotonic() > deadline:
                    raise PeerError(
                        f"{self.name} waited {patience:.0f} s for {reply['wait']}: is it running? "
                        "cluster.start_timeout sets how long to wait"
                    )
        finally:
            door.close()
        self.introduce(again=True)
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
        return unpack(self._lanes[0].call(op, [pack(facts, arrays)], once=once, deadline=deadline)[0])

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
                facts = {"client": self.client, "heard": version, "stats": self.stats()}
                reply, _ = unpack(self._lanes[1].call("beat", [pack(facts)])[0])
                if reply.get("unknown"):  # a new coordinator, or one that gave us up
                    unpack(self._lanes[1].call("join", [pack(self._introduction)])[0])
                    continue
                version = reply["version"]
                self.told = reply
                if reply.get("stop"):
                    self.on_stop()
                    return
        except Exception as error:
            if not self._stopped.is_set():
                self.failure = error
                log.error("lost the coordinator: %s", error)
                self.on_stop()
