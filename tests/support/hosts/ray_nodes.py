"""A Ray cluster of two nodes, each in a network namespace with an address of its own, and a shell on the first.

A node is killed as a machine is that loses power: all processes of its namespace at once.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from support.hosts import network_hosts
from support.hosts.network_hosts import Host, Hosts, two_hosts
from support.processes import ENVIRONMENT

PORT = 6379
CPUS = 5
_QUICKLY = {
    # A node that is killed refuses connections, and is found out within three seconds instead of a quarter of a minute.
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "10000",
    "RAY_health_check_failure_threshold": "3",
    "RAY_enable_worker_prestart": "0",
    "RAY_worker_niceness": "0",  # it is 15, and on a busy machine the processes of a job would wait for all others
    "RAY_USAGE_STATS_ENABLED": "0",
}
_LIST = (
    "import json, ray; ray.init(address='auto', log_to_driver=False);"
    "print(json.dumps([entry['name'] for entry in ray.util.list_named_actors(all_namespaces=True)]))"
)


def unavailable() -> str:
    """Why there can be none here; empty if there can."""
    if find_spec("ray") is None:
        return "the package ray is not installed"
    return network_hosts.unavailable()


@dataclass
class RayNodes:
    """Both nodes; programs are started on the first."""

    network: Hosts
    directory: Path
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def environment(self, host: Host) -> dict[str, str]:
        return {
            **ENVIRONMENT,
            **_QUICKLY,
            "RAY_TMPDIR": str(self.directory / host.namespace[-1]),
            "RAY_ADDRESS": f"{self.network.one.address}:{PORT}",
            "CLICKLINE_STATE": str(self.directory / "jobs"),
        }

    def start_node(self, host: Host) -> None:
        """`ray start`; the first is the head."""
        env = self.environment(host)
        Path(env["RAY_TMPDIR"]).mkdir(exist_ok=True)
        head = ["--head", f"--port={PORT}", "--include-dashboard=false"]
        role = head if host is self.network.one else [f"--address={env.pop('RAY_ADDRESS')}"]
        options = [f"--node-ip-address={host.address}", f"--num-cpus={CPUS}", "--object-store-memory=80000000"]
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", *role, *options, "--include-log-monitor=false"]
        log = self.directory / f"{host.namespace}.log"
        with log.open("ab") as out:
            done = subprocess.run(
                ["ip", "netns", "exec", host.namespace, *command],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env={key: value for key, value in env.items() if key != "RAY_ADDRESS"},
                timeout=120,
                check=False,
            )
        assert done.returncode == 0, log.read_text()

    def kill_node(self, host: Host) -> None:
        """All of its processes at once."""
        for pid in pids(host):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def start(self, *words: str | Path, directory: Path | None = None) -> subprocess.Popen[str]:
        """`clickline …` on the first node."""
        return self._started(["-m", "clickline", *map(str, words)], directory)

    def _started(self, words: list[str], directory: Path | None = None) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            ["ip", "netns", "exec", self.network.one.namespace, sys.executable, *words],
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment(self.network.one),
        )
        self.started.append(process)
        return process

    def run(
        self, *words: str | Path, seconds: float = 240, directory: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        return self._done(self.start(*words, directory=directory), seconds)

    def python(self, program: str) -> subprocess.CompletedProcess[str]:
        """A program of one line on the first node."""
        return self._done(self._started(["-c", program]), 60)

    def _done(self, process: subprocess.Popen[str], seconds: float) -> subprocess.CompletedProcess[str]:
        out, err = process.communicate(timeout=seconds)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def actor_names(self) -> list[str]:
        """Of all actors that are alive, as Ray's own list has them."""
        done = self.python(_LIST)
        assert done.returncode == 0, done.stderr
        names: list[str] = json.loads(done.stdout.splitlines()[-1])
        return sorted(names)

    def roles(self) -> dict[str, int]:
        """Processes of roles on either node, by namespace and role and number."""
        found = {}
        for name, host in (("one", self.network.one), ("other", self.network.other)):
            for pid in pids(host):
                with suppress(OSError):
                    words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
                    if words[1:3] == ["-m", "clickline"] and words[3] in ("coordinator", "pserver", "trainer"):
                        found[f"{name} {words[3]} {pid}"] = pid
        return found


def pids(host: Host) -> list[int]:
    done = subprocess.run(["ip", "netns", "pids", host.namespace], capture_output=True, text=True, check=False)
    return [int(line) for line in done.stdout.split()]


@contextmanager
def ray_nodes() -> Iterator[RayNodes]:
    """Both, and nothing of them afterwards."""
    # Ray's sockets are below it, and a socket's path may have 107 bytes.
    directory = Path(tempfile.mkdtemp(prefix="clkray"))
    try:
        with two_hosts() as network:
            nodes = RayNodes(network, directory)
            try:
                for host in (network.one, network.other):
                    nodes.start_node(host)
                yield nodes
            finally:
                for host in (network.one, network.other):
                    nodes.kill_node(host)
                for process in nodes.started:
                    process.communicate()
    finally:
        shutil.rmtree(directory, ignore_errors=True)
