"""Slurm on one host: its daemons, with keys of their own, in a network namespace without a way out."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from support.eventually import eventually
from support.hosts import network_hosts
from support.hosts.network_hosts import ip
from support.processes import ENVIRONMENT

_PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "mpirun")
_PMIX = "/usr/lib/*/pmix2/lib/libpmix.so"
_CONFIGURATION = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
AuthInfo=socket={directory}/munge.socket
SlurmUser=root
StateSaveLocation={directory}/controller
SlurmdSpoolDir={directory}/node
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
SelectType=select/linear
JobAcctGatherType=jobacct_gather/none
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
"""


def unavailable() -> str:
    """Why there can be none here; empty if there can."""
    missing = [
        program for program in _PROGRAMS if shutil.which(program) is None and not Path("/usr/sbin", program).exists()
    ]
    if missing:
        return f"there is no {missing[0]} (packages slurmctld, slurmd, slurm-client, munge, openmpi-bin)"
    if not any(Path("/usr/lib").glob("*/pmix2/lib/libpmix.so")):
        return f"Slurm finds no {_PMIX} (package libpmix-dev)"
    return network_hosts.unavailable()


@dataclass
class SlurmHost:
    """One node, which is the controller too."""

    namespace: str
    directory: Path
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        return {
            **ENVIRONMENT,
            "PATH": f"{os.environ['PATH']}:/usr/sbin",
            "SLURM_CONF": str(self.directory / "slurm.conf"),
            "CLICKLINE_STATE": str(self.directory / "jobs"),
        }

    def start(self, *words: str) -> subprocess.Popen[str]:
        """A command on the host, in its directory."""
        process = subprocess.Popen(
            # Not `ip netns exec`, which mounts another /sys: slurmd looks for control groups there.
            ["nsenter", f"--net=/run/netns/{self.namespace}", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment,
            cwd=self.directory,
        )
        self.started.append(process)
        return process

    def run(self, *words: str, seconds: float = 120) -> subprocess.CompletedProcess[str]:
        process = self.start(*words)
        out, err = process.communicate(timeout=seconds)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def pids(self) -> list[int]:
        """Of everything that runs on the host."""
        return [int(line) for line in self._ip_pids().split()]

    def _ip_pids(self) -> str:
        words = ["ip", "netns", "pids", self.namespace]
        return subprocess.run(words, capture_output=True, text=True, check=False).stdout


@contextmanager
def slurm_host(directory: Path) -> Iterator[SlurmHost]:
    """The host, with everything that was started on it gone afterwards."""
    directory.mkdir(parents=True)
    host = SlurmHost(f"clk{os.getpid()}s", directory)
    for name in ("controller", "node"):
        (directory / name).mkdir()
    content = _CONFIGURATION.format(host=socket.gethostname().partition(".")[0], directory=directory)
    (directory / "slurm.conf").write_text(content)
    key = directory / "munge.key"
    key.write_bytes(secrets.token_bytes(1024))
    key.chmod(0o600)
    munge = [f"--{name}-file={directory}/munge.{name}" for name in ("key", "pid", "log", "seed")]
    try:
        ip("netns", "add", host.namespace)
        # An address beside the loopback one: without it no name has an address, not even our own.
        ip("-n", host.namespace, "link", "add", "eth0", "type", "bridge")
        ip("-n", host.namespace, "address", "add", "198.18.8.1/24", "dev", "eth0")
        for link in ("lo", "eth0"):
            ip("-n", host.namespace, "link", "set", link, "up")
        host.start("munged", "--foreground", "--force", f"--socket={directory}/munge.socket", *munge)
        eventually((directory / "munge.socket").exists, what="munged", seconds=30)
        host.start("slurmctld", "-D")
        host.start("slurmd", "-D")
        eventually(lambda: host.run("sinfo", "-h", "-o", "%t").stdout == "idle\n", what="Slurm", seconds=60)
        yield host
    finally:
        for pid in host.pids():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in host.started:
            process.communicate()
        with suppress(OSError):
            ip("netns", "delete", host.namespace)
