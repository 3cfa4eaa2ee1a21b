"""A suite as `clickline up` starts it, with links between its parts, and what can be asked of each of them."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from clickline.cube.server.cube_commands import CubeCommands
from clickline.errors import PeerError
from clickline.launch.suite import Suite
from clickline.processes.process import Spec
from clickline.processes.process_events import ProcessEvent
from support.chaos.workload.links import Links

SHARDS = REPLICAS = WORKERS = 2
CUBE_TIMEOUT, REQUEST_TIMEOUT = 1.0, 10.0
"""Seconds: of one try to read from a replica, and of one request in a worker."""
_FIRST_VERSION = re.compile(r"serve\.\d+ model \S+: version \d+$", re.MULTILINE)


class LinkedSuite(Suite):
    """Transfer reads from the file server and orders agents through links; so do workers read from cube servers."""

    def __init__(self, state: Path, links: Links, *, on_event: Callable[[ProcessEvent], None]) -> None:
        super().__init__(state, port=0, shards=SHARDS, replicas=REPLICAS, workers=WORKERS, wait=0.5, on_event=on_event)
        self._links = links
        self.specs: dict[str, Spec] = {}
        """By name: how each component was started."""
        add = self.supervisor.add

        def add_linked(spec: Spec) -> None:
            self.specs[spec.name] = linked = self._linked(spec)
            add(linked)

        self.supervisor.add = add_linked  # type: ignore[method-assign]

    def _linked(self, spec: Spec) -> Spec:
        if spec.role == "predictor":
            return replace(spec, argv=self._serve_command(list(spec.argv)))
        if spec.role == "transfer":
            config = next(Path(word) for word in spec.argv if word.endswith(".yaml"))
            keys = yaml.safe_load(config.read_text(encoding="utf-8"))
            keys["donefile_address"] = self._through("fileserver", 0)
            layouts = yaml.safe_load(Path(keys["layouts"]).read_text(encoding="utf-8"))
            for shard, replicas in enumerate(layouts["layouts"][0]["shards"]):
                for replica, one in enumerate(replicas):
                    one["agent"] = self._through("agent", shard * REPLICAS + replica)
            # A file of its own, since the suite's is replaced; chaos does not change the number of shards.
            linked = config.with_name("linked-layouts.yaml")
            linked.write_text(yaml.safe_dump(layouts), encoding="utf-8")
            keys["layouts"] = str(linked)
            config.write_text(yaml.safe_dump(keys), encoding="utf-8")
        return spec

    def _serve_command(self, argv: list[str]) -> list[str]:
        """With a configuration file, since its deadlines are for two cores on which processes start all the time."""
        servers = [
            [self._links.add(f"cube.{shard * REPLICAS + replica}", address) for replica, address in enumerate(replicas)]
            for shard, replicas in enumerate(self.cube.servers)
        ]
        cube = {"servers": servers, "name": self.model, "timeout": CUBE_TIMEOUT}
        keys = {
            "models": {self.model: {"store": str(self.store), "cube": cube}},
            "limits": {"timeout": REQUEST_TIMEOUT},
        }
        config = self.directory / "serve.yaml"
        config.write_text(yaml.safe_dump(keys), encoding="utf-8")
        for option in ("--cube", "--cube-name", "--name"):
            del argv[argv.index(option) : argv.index(option) + 2]
        argv[argv.index(str(self.store))] = f"--config={config}"
        return argv

    def _through(self, role: str, rank: int) -> str:
        """A URL that leads to a component through a link, wherever it listens at the moment."""
        address = self._links.add(f"{role}.{rank}", f"ready:{self.process_files.ready(role, rank)}")
        return address.replace("tcp:", "http://")

    # --- asked by faults, from any thread ---

    def pid(self, name: str) -> int | None:
        """Of a component that runs."""
        found = [one for one in self.supervisor.states() if one["name"] == name and one["state"] == "running"]
        return found[0]["pid"] if found else None

    def url(self, name: str) -> str:
        role, _, rank = name.rpartition(".")
        return self.process_files.address(role, int(rank))

    def log_text(self, name: str) -> str:
        role, _, rank = name.rpartition(".")
        with suppress(OSError):
            return self.process_files.log(role, int(rank)).read_text(encoding="utf-8", errors="replace")
        return ""

    def workers(self) -> list[int]:
        """Processes of the predictor's workers that live."""
        parent = self.pid("predictor.0")
        with suppress(OSError):
            children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
            return [int(pid) for pid in children if state_of(int(pid)) not in ("Z", "")]
        return []

    def workers_begun(self) -> int:
        """Workers, also of the past, that have got as far as to serve."""
        return len(_FIRST_VERSION.findall(self.log_text("predictor.0")))

    def switch_number(self, rank: int, *, deadline: float = 2.0) -> int:
        """Of the version that a cube server serves; 0 if it serves none or does not answer."""
        shard, replica = divmod(rank, REPLICAS)
        try:
            address = self.cube.servers[shard][replica]
            with CubeCommands(
                address, name=self.model, token=self.token.encode(), patience=0.0, deadline=deadline
            ) as server:
                return int(server.call("status")["number"])
        except (PeerError, IndexError):
            return 0

    def shard_whole(self, shard: int) -> bool:
        """Whether all replicas of a shard serve what is newest: one that has not caught up is no help to anybody."""
        numbers = [self.switch_number(rank) for rank in range(SHARDS * REPLICAS)]
        mine = numbers[shard * REPLICAS : (shard + 1) * REPLICAS]
        return min(mine) == max(numbers) > 0

    def workers_whole(self) -> bool:
        found = self.workers()
        return len(found) == WORKERS and not any(state_of(pid) == "T" for pid in found)

    def transfer_info(self) -> dict[str, Any]:
        return self.cube.info()


def state_of(pid: int) -> str:
    """As ps shows it: R, S, T (stopped), Z; empty if there is no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    return text.rpartition(")")[2].split()[0]


class Stopped:
    """A process that stands still until `wake`. Held by a descriptor, since its number may become another's."""

    def __init__(self, pid: int) -> None:
        """Raises ProcessLookupError if there is none."""
        self._descriptor = os.pidfd_open(pid)
        try:
            signal.pidfd_send_signal(self._descriptor, signal.SIGSTOP)
        except BaseException:
            os.close(self._descriptor)
            raise

    def wake(self) -> str:
        """`continued`, or `replaced` if somebody has lost patience and killed it."""
        try:
            signal.pidfd_send_signal(self._descriptor, signal.SIGCONT)
        except ProcessLookupError:
            return "replaced"
        finally:
            os.close(self._descriptor)
        return "continued"


def send(pid: int, number: int) -> bool:
    """A signal; whether there was anybody to get it."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True
