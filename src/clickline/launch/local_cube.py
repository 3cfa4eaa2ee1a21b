"""A whole cube on this machine: servers with their agents, and transfer, as processes that end together.

Servers listen on sockets in a private directory, agents and transfer on any free port, which they write to a file
(`--ready-file`) and take again when they are started again. Transfer is started when all agents listen.
"""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import yaml

from clickline.errors import PeerError
from clickline.launch.delivery_status import DeliveryStatus
from clickline.launch.local.local_processes import private_sockets
from clickline.launch.process_files import ProcessFiles
from clickline.processes.heartbeats.heartbeat_monitor import STALL_AFTER
from clickline.processes.process import Spec
from clickline.processes.process_events import ProcessEvent
from clickline.processes.process_group import ProcessGroup
from clickline.processes.restart_policy import SERVING
from clickline.processes.supervisor import Supervisor

ROLES = ("cube", "agent", "transfer")
_LONG = 180.0
"""Seconds after which something that should happen by itself will not: a busy machine takes long to start processes."""


class LocalCube(ProcessGroup):
    """`with LocalCube(directory, store=…, shards=2, replicas=2) as cube: …`; nothing is left running afterwards.

    Use it from one thread, and call `poll` now and then: a process that dies is started again by that.
    """

    def __init__(
        self,
        directory: Path,
        *,
        store: str | Path,
        shards: int = 1,
        replicas: int = 1,
        name: str = "cube",
        token: str = "",
        keep: int = 3,
        interval: float = 10.0,
        wait: float = 5.0,
        memory: bool = False,
        restarts: int | None = 10,
        env: Mapping[str, Mapping[str, str]] | None = None,
        on_event: Callable[[ProcessEvent], object] = lambda _: None,
        stall_after: float = STALL_AFTER,
        supervisor: Supervisor | None = None,
        poll: Callable[[], None] | None = None,
    ) -> None:
        """`env` adds variables to the environment of a process, by its name (such as `cube.0`), or by its role.

        `store` is a directory or a URL. `supervisor` is one that looks after other processes too: `poll` polls it, and
        only what is started here is stopped here. A process that sends no heartbeat for `stall_after` seconds is killed
        and started again; 0 is never.
        """
        self.directory, self.name = directory.absolute(), name
        self._files = ProcessFiles(self.directory)
        self.shards, self.replicas = shards, replicas
        self.token = token or secrets.token_hex(16)
        self._store = str(store) if "://" in str(store) else str(Path(store).absolute())
        self._keep, self._interval, self._wait, self._memory = keep, interval, wait, memory
        self._env, self._stall_after = dict(env or {}), stall_after
        super().__init__()
        self._policy = replace(SERVING, restarts=restarts)
        self._supervisor = supervisor or Supervisor([], restarts=restarts, on_event=on_event)
        self._poll = poll or self._supervisor.poll
        self.servers: list[list[str]] = []
        """Addresses by shard, for `Cube.connect`."""

    @property
    def url(self) -> str:
        """Transfer's."""
        return self._http("transfer", 0)

    @property
    def sockets(self) -> Path:
        """The private directory that the servers' sockets are in."""
        return Path(self.servers[0][0].removeprefix("unix:")).parent

    @property
    def supervisor(self) -> Supervisor:
        return self._supervisor

    def poll(self) -> None:
        """Look after the processes once. Raises PeerError when things cannot go on."""
        self._poll()

    def until(self, condition: Callable[[], bool], *, seconds: float = _LONG, every: float = 0.02) -> None:
        """Look after the processes until the condition holds."""
        give_up = time.monotonic() + seconds
        while not condition():
            self.poll()
            if time.monotonic() > give_up:
                raise PeerError(f"{getattr(condition, '__name__', 'this')} did not happen within {seconds:g} s")
            time.sleep(every)

    def info(self) -> Mapping[str, Any]:
        """Transfer's page /dict/info, in Cube's shape; empty if it cannot be reached."""
        page: Mapping[str, Any] = self._page("/dict/info").get("data", {})
        return page

    def status(self) -> DeliveryStatus:
        """What is in service and what is under way; nothing of both if transfer cannot be reached."""
        return DeliveryStatus.of(self._page("/status"))

    def _page(self, path: str) -> Mapping[str, Any]:
        """A page of transfer; empty if it cannot be reached."""
        try:
            with httpx.Client(trust_env=False, timeout=5.0) as client:
                page = client.get(f"{self.url}{path}").json()
        except (httpx.HTTPError, PeerError, ValueError):
            return {}
        return page if isinstance(page, dict) else {}

    def serving(self) -> int:
        """The version whose rollout was finished last; 0: none."""
        return self.status().serving

    def wait_for(self, version: int, *, seconds: float = _LONG) -> None:
        """Wait until a version is in service and its rollout is over."""

        def is_in_service() -> bool:
            status = self.status()
            return status.serving == version and not status.rolling

        self.until(is_in_service, seconds=seconds)

    def pid(self, role: str, rank: int) -> int | None:
        pids = [each["pid"] for each in self._supervisor.states() if (each["role"], each["rank"]) == (role, rank)]
        return pids[0] if pids else None

    def _start(self) -> None:
        sockets = self._stack.enter_context(private_sockets())
        # Pushed after the sockets: the processes are stopped before the directory in which they listen is removed.
        self._stack.callback(self._supervisor.stop, ROLES)
        count = self.shards * self.replicas
        # Ready files of an earlier start would be taken for those of this one.
        for rank in range(count):
            self._files.ready("cube", rank).unlink(missing_ok=True)
            self._files.ready("agent", rank).unlink(missing_ok=True)
        self._files.ready("transfer", 0).unlink(missing_ok=True)
        # Rank = shard * replicas + replica.
        addresses = [f"unix:{sockets}/cube.{rank}.sock" for rank in range(count)]
        self.servers = [addresses[shard * self.replicas : (shard + 1) * self.replicas] for shard in range(self.shards)]
        self._supervisor.start()  # changes nothing for those that run already
        for rank in range(count):
            self._supervisor.add(self._cube_spec(rank, addresses[rank]))
            self._supervisor.add(self._agent_spec(rank, addresses[rank]))
        # All are started before any is waited for, so that they load their code side by side.
        self.until(lambda: all(self._files.ready(r, n).exists() for r in ("cube", "agent") for n in range(count)))
        # Transfer is told the agents' addresses, which are only known now.
        config = self.directory / "transfer.yaml"
        config.write_text(yaml.safe_dump(self._transfer_keys(addresses)), encoding="utf-8")
        self._supervisor.add(self._spec("transfer", 0, [str(config), "--listen", "127.0.0.1:0"]))
        self.until(self._files.ready("transfer", 0).exists)

    def _transfer_keys(self, addresses: list[str]) -> dict[str, object]:
        replicas = [
            {"agent": self._http("agent", rank), "cube": address, "deploy_path": str(self._deploy(rank))}
            for rank, address in enumerate(addresses)
        ]
        return {
            "dict_name": self.name,
            "donefile_address": self._store,
            "output_address": str(self.directory / "builds"),
            "tmp_address": str(self.directory / "transfer"),
            "shards": [replicas[s * self.replicas : (s + 1) * self.replicas] for s in range(self.shards)],
            "interval": self._interval,
            "wait": self._wait,
            "keep": self._keep,
        }

    def _cube_spec(self, rank: int, address: str) -> Spec:
        shard = rank // self.replicas
        arguments = [str(self._deploy(rank)), "--name", self.name, "--listen", address]
        arguments += ["--shard", str(shard), "--shards", str(self.shards), "--keep", str(self._keep)]
        arguments += ["--http", "127.0.0.1:0", *(["--memory"] if self._memory else [])]
        return self._spec("cube", rank, ["serve", *arguments])

    def _agent_spec(self, rank: int, address: str) -> Spec:
        return self._spec("agent", rank, [str(self._deploy(rank)), "--cube", address, "--listen", "127.0.0.1:0"])

    def _spec(self, role: str, rank: int, arguments: list[str]) -> Spec:
        ready = ["--ready-file", str(self._files.ready(role, rank))]
        own = {**self._env.get(role, {}), **self._env.get(f"{role}.{rank}", {})}
        return Spec(
            role=role,
            rank=rank,
            argv=[sys.executable, "-m", "clickline", role, *arguments, *ready],
            env={"CLICKLINE_TOKEN": self.token, **own},
            log=self._files.log(role, rank),
            policy=self._policy,
            stall_after=self._stall_after,
            replicas=f"cube shard {rank // self.replicas}" if role == "cube" else "",
        )

    def _deploy(self, rank: int) -> Path:
        return self.directory / f"cube.{rank}"

    def _http(self, role: str, rank: int) -> str:
        """The address in a process's ready file."""
        address = self._files.address(role, rank)
        if not address:
            raise PeerError(f"{role}.{rank} does not listen yet")
        return address
