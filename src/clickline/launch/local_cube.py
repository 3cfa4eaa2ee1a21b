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
from clickline.launch.cube_members import CubeMembers, MemberPlace
from clickline.launch.delivery_status import DeliveryStatus
from clickline.launch.local.local_processes import private_sockets
from clickline.launch.process_files import ProcessFiles
from clickline.launch.suite_description import KEEP, SuiteDescription
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
        keep: int = KEEP,
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
        self._description = SuiteDescription(
            model=name, shards=shards, replicas=replicas, keep=keep, interval=interval, wait=wait, memory=memory
        )
        self._env, self._stall_after = dict(env or {}), stall_after
        super().__init__()
        self._policy = replace(SERVING, restarts=restarts)
        self._supervisor = supervisor or Supervisor([], restarts=restarts, on_event=on_event)
        self._poll = poll or self._supervisor.poll
        self._members: CubeMembers | None = None

    @property
    def url(self) -> str:
        """Transfer's."""
        return self._http("transfer", 0)

    @property
    def servers(self) -> list[list[str]]:
        """Addresses by shard of the newest layout, for `Cube.connect`."""
        return self._members.servers if self._members is not None else []

    @property
    def members(self) -> CubeMembers:
        """Servers and agents. Raises PeerError before they are started."""
        if self._members is None:
            raise PeerError("the cube is not started yet")
        return self._members

    @property
    def places(self) -> Mapping[int, MemberPlace]:
        """What servers and agents hold, by rank."""
        return self._members.places if self._members is not None else {}

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
        self.sockets = self._stack.enter_context(private_sockets())
        # Pushed after the sockets: the processes are stopped before the directory in which they listen is removed.
        self._stack.callback(self._supervisor.stop, ROLES)
        self._files.ready("transfer", 0).unlink(missing_ok=True)
        self._supervisor.start()  # changes nothing for those that run already
        members = self._members = CubeMembers(
            self._files,
            self._supervisor,
            sockets=self.sockets,
            spec=self._spec,
            description=self._description,
        )
        ranks = members.start(epoch=1, shards=self.shards, replicas=range(self.replicas))
        self.until(lambda: members.are_ready(ranks))
        # Transfer and readers are told the agents' addresses, which are only known now.
        members.publish(1)
        config = self.directory / "transfer.yaml"
        config.write_text(yaml.safe_dump(self._transfer_keys()), encoding="utf-8")
        self._supervisor.add(self._spec("transfer", 0, self._description.transfer(str(config), listen="127.0.0.1:0")))
        self.until(self._files.ready("transfer", 0).exists)

    def _transfer_keys(self) -> dict[str, object]:
        return self._description.transfer_keys(
            store=self._store,
            builds=str(self.directory / "builds"),
            state=str(self.directory / "transfer"),
            members={"layouts": str(self.members.file)},
        )

    def _spec(self, role: str, rank: int, command: list[str], replicas: str = "") -> Spec:
        ready = ["--ready-file", str(self._files.ready(role, rank))]
        own = {**self._env.get(role, {}), **self._env.get(f"{role}.{rank}", {})}
        return Spec(
            role=role,
            rank=rank,
            argv=[sys.executable, "-m", "clickline", *command, *ready],
            env={"CLICKLINE_TOKEN": self.token, **own},
            log=self._files.log(role, rank),
            policy=self._policy,
            stall_after=self._stall_after,
            replicas=replicas,
        )

    def _http(self, role: str, rank: int) -> str:
        """The address in a process's ready file."""
        address = self._files.address(role, rank)
        if not address:
            raise PeerError(f"{role}.{rank} does not listen yet")
        return address
