"""The cube server's process: native reads, commands over the same wire, HTTP beside it.

Commands are CALLs whose body and reply are JSON (`cube_commands` sends them): alive, status, load, switch, rollback,
drop, remove, compact. Only a client that knows the token gets as far as to send one.
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
from typing import Any, TypedDict

import msgspec

from clickline import _native
from clickline.cube.agent_messages import CubeServerStatus
from clickline.cube.server.compaction import Compactor, compact
from clickline.cube.server.cube_commands import ALIVE, CubeCommands
from clickline.cube.server.loaded_versions import LoadedVersions
from clickline.cube.server.server_api import ServerRoutes, server_app
from clickline.cube.server.server_metrics import HttpReadCounters
from clickline.errors import PeerError, VersionError
from clickline.files.directory_lock import DirectoryLock
from clickline.files.json_state import write_state
from clickline.net.tokens import BearerToken
from clickline.net.web_server import WebServer
from clickline.processes.heartbeats.heartbeat import BEAT_EVERY, Heartbeat

log = logging.getLogger("clickline.cube")
_ASK_PEERS = 0.5
"""Seconds that a server which comes back waits for the others of its shard."""


@dataclass(frozen=True)
class CubeOptions:
    """Where a cube server listens, what it serves and from where."""

    name: str
    """Name of the deployment."""
    directory: Path
    token: bytes
    address: str = "tcp:127.0.0.1:0"
    shard: int = 0
    shards: int = 1
    keep: int = 3
    memory: bool = False
    http_host: str = "127.0.0.1"
    http_port: int | None = 0
    """None: no HTTP."""
    open_gateway: bool = False
    ready: Path | None = None
    """A file that says where it listens, once it does."""


class ReadyFile(TypedDict):
    """Where a server listens."""

    pid: int
    wire: str
    http: str | None


class CubeProcess:
    """A cube server: opened by the constructor, served until `close`."""

    def __init__(self, options: CubeOptions, *, routes: ServerRoutes | None = None) -> None:
        """`routes` makes further HTTP routes, such as Cube's."""
        self.options = options
        self.http_reads = HttpReadCounters()
        self._probed = False
        self.stopped = threading.Event()
        with ExitStack() as opening:
            # A second server in this directory would delete files that the first one reads, and overwrite state.json.
            self._lock = DirectoryLock(options.directory, "cube server")
            opening.callback(self._lock.release)
            self._open(options, routes)
            opening.pop_all()

    def _open(self, options: CubeOptions, routes: ServerRoutes | None) -> None:
        guard = BearerToken(token=options.token, host=options.http_host, open_to_all=options.open_gateway)
        self.native = _native.CubeServer(
            options.address,
            name=f"cube.{options.shard}",
            job=options.name,
            token=options.token,
            handler=self._handle,
        )
        self.versions = LoadedVersions(
            options.directory,
            self.native,
            name=options.name,
            shard=options.shard,
            shards=options.shards,
            keep=options.keep,
            memory=options.memory,
        )
        self._compactor = Compactor(self.versions)
        self._compactor.start()
        # Before HTTP and the ready file: a server that reports itself ready serves again, or waits for transfer.
        self.versions.restore(may_serve=self._has_newest_switch)
        self.web = None
        if options.http_port is not None:
            app = server_app(self, guard=guard, routes=routes)
            self.web = WebServer(app, host=options.http_host, port=options.http_port)
        if options.ready is not None:
            write_state(options.ready, self.where())
        log.info("shard %d of %d listens at %s", options.shard, options.shards, self.native.address)
        self._compactor.wake()

    def where(self) -> ReadyFile:
        """Contents of the file that says where it listens."""
        return {"pid": os.getpid(), "wire": self.native.address, "http": self.web.address if self.web else None}

    def wait(self, heartbeat: Heartbeat) -> None:
        """Until it is stopped. With a supervisor, it is alive as long as it answers on its own sockets."""
        if not heartbeat.watched:
            self.stopped.wait()
            return
        from clickline.cube.wire_probe import WireProbe

        self._probed = True
        probe = WireProbe(self.native.address, name=self.options.name, token=self.options.token)
        try:
            while not self.stopped.wait(BEAT_EVERY):
                if (self.web is None or self.web.turned()) and probe.answers():
                    heartbeat.beat()
        finally:
            probe.close()

    def close(self) -> None:
        if self.web is not None:
            self.web.close()
        # The compactor calls the native server, so it ends first.
        self._compactor.close()
        self.native.close()
        self._lock.release()

    # --- commands, of the wire and of HTTP ---

    def status(self) -> CubeServerStatus:
        versions = self.versions
        noted, _ = versions.noted
        return CubeServerStatus(
            name=versions.name,
            shard=versions.shard,
            shards=versions.shards,
            version=versions.view.version,
            number=versions.view.number,
            noted=noted,
            loaded=tuple(versions.loaded),
            complete=tuple(versions.disk.complete()),
            problems=tuple(versions.problems[-10:]),
            tables=tuple(sorted(versions.view.tables)),
            time=time.time(),
        )

    def _status_with_readers(self) -> CubeServerStatus:
        # A connection that is not a reader's is the one that this question came on; another, that of the own probe.
        others = 1 + self._probed
        return msgspec.structs.replace(self.status(), readers=max(0, self.native.counts()["connections"] - others))

    def load(self, version: int) -> None:
        try:
            self.versions.load(version)
        except (RuntimeError, ValueError, OSError) as error:
            raise VersionError(str(error)) from None

    def switch(self, version: int, number: int = 0, peers: list[str] | None = None) -> None:
        self.versions.switch(version, number, peers=peers)
        self._compactor.wake()

    def rollback(self, version: int = 0, number: int = 0, peers: list[str] | None = None) -> int:
        served = self.versions.rollback(number, version=version, peers=peers)
        self._compactor.wake()
        return served

    def compact(self, version: int = 0) -> bool:
        return compact(self.versions, version or self.versions.view.version)

    def _handle(self, _name: str, _client: int, op: str, body: memoryview) -> bytes:
        known: dict[str, Callable[..., Any]] = {
            # Goes through the handler, so that the probe finds a handler that hangs; greetings come from native code.
            ALIVE: lambda: None,
            "status": self._status_with_readers,
            "load": self.load,
            "switch": self.switch,
            "rollback": self.rollback,
            "drop": self.versions.drop,
            "remove": self.versions.remove,
            "compact": self.compact,
        }
        if op not in known:
            raise PeerError(f"no command {op!r}; known: {', '.join(known)}")
        arguments = json.loads(bytes(body) or b"{}")
        if not isinstance(arguments, dict):
            raise PeerError(f"{op}: its arguments must be a JSON object")
        return msgspec.json.encode(known[op](**arguments))

    def _has_newest_switch(self) -> bool:
        """Whether no other server of this shard has been switched since this one was.

        Otherwise this server would serve a version that the others have left; transfer brings it up to date first.
        """
        # A peer that does not answer in time is not waited for: readers are waiting for this server.
        _, number = self.versions.noted
        for address in self.versions.peers:
            try:
                with CubeCommands(
                    address, name=self.options.name, token=self.options.token, patience=0.0, deadline=_ASK_PEERS
                ) as peer:
                    status = peer.status()
            except PeerError:
                continue
            if status.number > number:
                log.warning(
                    "%s has switch %d, this server stopped at %d: not serving before it is brought up to date",
                    address,
                    status.number,
                    number,
                )
                return False
        return True
