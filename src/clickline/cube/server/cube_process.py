"""The cube server's process: native reads, commands over the same wire, an HTTP gateway beside it.

Commands are CALLs whose body and reply are JSON: alive, status, load, switch, rollback, drop, remove, compact. Only who
knows the token gets as far as to send one.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clickline import _native
from clickline.cube.server.compaction import Compactor, compact
from clickline.cube.server.gateway import gateway
from clickline.cube.server.loaded_versions import Shelf
from clickline.errors import PeerError, VersionError
from clickline.files.directory_lock import DirectoryLock
from clickline.files.json_state import write_state
from clickline.net.tokens import BearerToken
from clickline.net.web_server import WebServer
from clickline.processes.heartbeat import BEAT_EVERY, Heartbeat

log = logging.getLogger("clickline.cube")
ALIVE = "alive"
"""The command that does nothing but be answered."""
_ASK_PEERS = 0.5
"""Seconds that a server which comes back waits for the others of its shard."""


@dataclass(frozen=True)
class CubePlace:
    """Where and what a cube server is."""

    name: str
    """Of the deployment."""
    directory: Path
    token: bytes
    address: str = "tcp:127.0.0.1:0"
    shard: int = 0
    shards: int = 1
    keep: int = 3
    memory: bool = False
    http_host: str = "127.0.0.1"
    http_port: int | None = 0
    """None: no gateway."""
    open_gateway: bool = False
    ready: Path | None = None
    """A file that says where it listens, once it does."""


class CubeProcess:
    """A cube server, from its first to its last breath. A context manager."""

    def __init__(self, place: CubePlace) -> None:
        self.place = place
        self.stopped = threading.Event()
        with ExitStack() as opening:
            self._lock = DirectoryLock(place.directory, "cube server")
            opening.callback(self._lock.release)
            self._open(place)
            opening.pop_all()

    def _open(self, place: CubePlace) -> None:
        guard = BearerToken(token=place.token, host=place.http_host, open_to_all=place.open_gateway)
        self.native = _native.CubeServer(
            place.address,
            name=f"cube.{place.shard}",
            job=place.name,
            token=place.token,
            handler=self._handle,
        )
        self.shelf = Shelf(
            place.directory,
            self.native,
            name=place.name,
            shard=place.shard,
            shards=place.shards,
            keep=place.keep,
            memory=place.memory,
        )
        self._tidying = Compactor(self.shelf)
        self._tidying.start()
        self.shelf.restore(may_serve=self._nobody_knows_better)
        self.web = None
        if place.http_port is not None:
            app = gateway(self, guard=guard)
            self.web = WebServer(app, host=place.http_host, port=place.http_port)
        if place.ready is not None:
            write_state(place.ready, self.where())
        log.info("shard %d of %d listens at %s", place.shard, place.shards, self.native.address)
        self._tidying.wake()

    def where(self) -> dict[str, Any]:
        return {"pid": os.getpid(), "wire": self.native.address, "http": self.web.address if self.web else None}

    def wait(self, heartbeat: Heartbeat) -> None:
        """Until it is stopped. With a supervisor, it is alive as long as it answers on its own sockets."""
        if not heartbeat.watched:
            self.stopped.wait()
            return
        from clickline.cube.wire_probe import WireProbe

        probe = WireProbe(self.native.address, name=self.place.name, token=self.place.token)
        try:
            while not self.stopped.wait(BEAT_EVERY):
                if (self.web is None or self.web.turned()) and probe.answers():
                    heartbeat.beat()
        finally:
            probe.close()

    def close(self) -> None:
        if self.web is not None:
            self.web.close()
        self._tidying.close()
        self.native.close()
        self._lock.release()

    # --- commands, also used by the gateway ---

    def status(self) -> dict[str, Any]:
        shelf = self.shelf
        noted, _ = shelf.noted
        return {
            "name": shelf.name,
            "shard": shelf.shard,
            "shards": shelf.shards,
            "version": shelf.view.version,
            "number": shelf.view.number,
            "noted": noted,
            "loaded": shelf.loaded,
            "complete": shelf.disk.complete(),
            "problems": shelf.problems[-10:],
            "tables": sorted(shelf.view.tables),
            "time": time.time(),
        }

    def load(self, version: int) -> None:
        try:
            self.shelf.load(version)
        except (RuntimeError, ValueError, OSError) as error:
            raise VersionError(str(error)) from None

    def switch(self, version: int, number: int = 0, peers: list[str] | None = None) -> None:
        self.shelf.switch(version, number, peers=peers)
        self._tidying.wake()

    def rollback(self, version: int = 0, number: int = 0, peers: list[str] | None = None) -> int:
        found = self.shelf.rollback(number, version=version, peers=peers)
        self._tidying.wake()
        return found

    def compact(self, version: int = 0) -> bool:
        return compact(self.shelf, version or self.shelf.view.version)

    def _handle(self, _name: str, _client: int, op: str, body: memoryview) -> bytes:
        known: dict[str, Callable[..., Any]] = {
            ALIVE: lambda: None,
            "status": self.status,
            "load": self.load,
            "switch": self.switch,
            "rollback": self.rollback,
            "drop": self.shelf.drop,
            "remove": self.shelf.remove,
            "compact": self.compact,
        }
        if op not in known:
            raise PeerError(f"no command {op!r}; known: {', '.join(known)}")
        arguments = json.loads(bytes(body) or b"{}")
        if not isinstance(arguments, dict):
            raise PeerError(f"{op}: its arguments must be a JSON object")
        return json.dumps(known[op](**arguments)).encode()

    def _nobody_knows_better(self) -> bool:
        """Whether no other server of this shard has been switched since we were.

        Else we would serve a version that the others have left behind; whoever delivers brings us up to date first.
        """
        _, number = self.shelf.noted
        for address in self.shelf.peers:
            try:
                with Commands(
                    address, name=self.place.name, token=self.place.token, patience=0.0, deadline=_ASK_PEERS
                ) as peer:
                    found = peer.call("status")
            except PeerError:
                continue
            if found["number"] > number:
                log.warning(
                    "%s has switch %d, we stopped at %d: not serving before we are brought up to date",
                    address,
                    found["number"],
                    number,
                )
                return False
        return True


class Commands:
    """A way to tell a cube server something.

    A server that cannot be reached is tried again for `patience` seconds; one that was reached has `deadline` seconds.
    """

    def __init__(self, address: str, *, name: str, token: bytes, patience: float = 5.0, deadline: float = 5.0) -> None:
        self._lane = _native.Lane(
            [address],
            token=token,
            job=name,
            name="agent",
            client=int.from_bytes(os.urandom(8), "little"),
            lane=0,
            deadline=deadline,
            retry_for=patience,
        )

    def __enter__(self) -> Commands:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._lane.close()

    def call(self, op: str, *, deadline: float | None = None, **arguments: Any) -> Any:
        """Raises PeerError with the server's words if it refuses, or if it cannot be reached."""
        (reply,) = self._lane.call(op, [[json.dumps(arguments).encode()]], deadline=deadline)
        return json.loads(reply)
