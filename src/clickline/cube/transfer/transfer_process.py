"""Transfer's process: transfer, its HTTP, the file server of the builds and the lock of its directory."""

from __future__ import annotations

import logging
import os
import threading
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from clickline.cube.builder.version_source import VersionSource
from clickline.cube.transfer.builds import TransferPlan
from clickline.cube.transfer.transfer import Transfer
from clickline.cube.transfer.transfer_api import TransferApi, TransferRoutes
from clickline.files.directory_lock import DirectoryLock
from clickline.files.json_state import write_state
from clickline.fileserver.file_server import FileServer
from clickline.net.tokens import BearerToken
from clickline.net.web_server import WebServer
from clickline.processes.heartbeats.heartbeat import BEAT_EVERY, Heartbeat

log = logging.getLogger("clickline.transfer")


@dataclass(frozen=True)
class TransferOptions:
    """Where transfer listens."""

    token: bytes
    host: str = "127.0.0.1"
    port: int = 0
    wget_port: int = 0
    """Port of the built files; 0: the same port."""
    address: str = ""
    """How agents reach this machine; `host` if empty."""
    open_to_all: bool = False
    ready: Path | None = None


class TransferProcess:
    """A transfer that listens: opened by the constructor, at work until `close`."""

    def __init__(
        self,
        plan: TransferPlan,
        source: VersionSource,
        options: TransferOptions,
        *,
        routes: TransferRoutes | None = None,
    ) -> None:
        """`routes` makes further HTTP routes, such as Cube's."""
        with ExitStack() as opening:
            self._lock = DirectoryLock(plan.scratch, f"transfer of {plan.name}")
            opening.callback(self._lock.release)
            self._open(plan, source, options, routes)
            opening.pop_all()

    def _open(
        self, plan: TransferPlan, source: VersionSource, options: TransferOptions, routes: TransferRoutes | None
    ) -> None:
        guard = BearerToken(token=options.token, host=options.host, open_to_all=options.open_to_all)
        plan.output.mkdir(parents=True, exist_ok=True)
        self._files = FileServer(plan.output)
        # Set once the port is known. Agents get no URL before that, since transfer starts last.
        self._base = ""
        self.transfer = Transfer(plan, source, token=options.token, url=self._url)
        app = TransferApi(self.transfer, guard=guard).app(files=self._files, routes=routes)
        self.web = WebServer(app, host=options.host, port=options.port)
        self._files_web = None
        if options.wget_port and options.wget_port != self.web.port:
            self._files_web = WebServer(app, host=options.host, port=options.wget_port)
        shown = options.address or options.host
        shown = f"[{shown}]" if ":" in shown else shown
        self._base = f"http://{shown}:{options.wget_port or self.web.port}/output"
        self.stopped = threading.Event()
        log.info("listens at %s, builds at %s", self.web.address, self._base)
        # Last: from here on agents are told to download from the server above.
        self.transfer.start()
        if options.ready is not None:
            write_state(options.ready, {"pid": os.getpid(), "http": self.web.address})

    def _url(self, name: str) -> str:
        return f"{self._base}/{name}"

    def wait(self, heartbeat: Heartbeat) -> None:
        webs = [web for web in (self.web, self._files_web) if web is not None]
        while not self.stopped.wait(BEAT_EVERY):
            turned = [web.turned() for web in webs]  # all of them are asked
            if all(turned) and self.transfer.runs:
                heartbeat.beat()

    def close(self) -> None:
        self.web.close()
        if self._files_web is not None:
            self._files_web.close()
        self._files.close()
        self.transfer.close()
        self._lock.release()
