"""mpirun over the two hosts of `ssh_hosts`: Open MPI's own daemons, started by ssh, in a network that is theirs.

mpirun runs on the client; ranks run on `one` and `other` in the directory `private`, which is another one on each.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from support.eventually import eventually
from support.hosts import ssh_hosts
from support.hosts.ssh_hosts import SshHosts

NETWORK = "198.18.7.0/24"


def unavailable() -> str:
    """Why there can be none here; empty if there can."""
    if shutil.which("mpirun") is None:
        return "there is no mpirun (packages openmpi-bin, libopenmpi3)"
    return ssh_hosts.unavailable()


class MpiHosts:
    """Both hosts, and mpirun."""

    def __init__(self, hosts: SshHosts, files: dict[str, str]) -> None:
        """`files`: data of the test by name, copied to each host's own directory."""
        self.hosts = hosts
        for host in ("one", "other"):
            for name, source in files.items():
                hosts.on(host, f"cp {source} {hosts.private}/{name}.tsv")

    def write_job(self, content: dict[str, Any]) -> None:
        """On the first host alone: no other rank reads it."""
        place = self.hosts.directory / "job.yaml"
        place.write_text(yaml.safe_dump(content), encoding="utf-8")
        self.hosts.on("one", f"cp {place} {self.hosts.private}/job.yaml")

    def start(
        self,
        *arguments: str,
        ranks: int = 4,
        options: tuple[str, ...] = (),
        hosts: str = "one:2,other:2",
        directory: Path | None = None,
    ) -> subprocess.Popen[str]:
        """`mpirun … clickline train job.yaml --on mpi …` on the client; ranks run in `directory`, or `private`."""
        network = [
            word
            for name, value in {
                "plm_rsh_agent": str(self.hosts.directory / "ssh"),
                "plm_rsh_no_tree_spawn": "1",
                "oob_tcp_if_include": NETWORK,
                "btl_tcp_if_include": NETWORK,
                "btl": "tcp,self",
            }.items()
            for word in ("--mca", name, value)
        ]
        exported = {"CLICKLINE_STATE": f"{self.hosts.private}/state", "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
        passed = [word for name, value in exported.items() for word in ("-x", f"{name}={value}")]
        command = ["mpirun", *network, *passed, "--bind-to", "none", "--wdir", str(directory or self.hosts.private)]
        command += [*options, "--host", hosts, "-np", str(ranks)]
        command += [sys.executable, "-m", "clickline", "train", "job.yaml", "--on", "mpi", *arguments]
        environment = {**self.hosts.environment, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        process = subprocess.Popen(
            ["ip", "netns", "exec", self.hosts.client.namespace, *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.hosts.started.append(process)
        return process

    def run(self, *arguments: str, seconds: float = 240, **options: Any) -> subprocess.CompletedProcess[str]:
        process = self.start(*arguments, **options)
        out, err = process.communicate(timeout=seconds)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def clickline(self, *arguments: str) -> str:
        """What a verb prints on the host of rank 0."""
        words = " ".join([sys.executable, "-m", "clickline", *arguments])
        state = f"CLICKLINE_STATE={self.hosts.private}/state"
        return self.hosts.on("one", f"cd {self.hosts.private} && {state} {words}").decode()

    def has_checkpoint(self, name: str) -> bool:
        place = f"{self.hosts.private}/runs/{name}/checkpoints"
        return b"step-" in self.hosts.on("one", f"ls {place} 2> /dev/null || true")

    def idle(self) -> bool:
        """Whether nothing of a job runs on either host, ranks included."""
        return not self.hosts.processes("one") and not self.hosts.processes("other")

    def kill_rank(self, name: str, role: str) -> None:
        """Kill the rank that has started the process of a role on a host."""
        pid = eventually(lambda: self.hosts.pid(name, role), what=f"a {role} on {name}")
        status = Path(f"/proc/{pid}/status").read_text()
        os.kill(int(status.partition("PPid:")[2].split()[0]), signal.SIGKILL)
