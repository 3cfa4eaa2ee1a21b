"""All processes of a job on this machine: what to start, and the private directory that their sockets are in."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from clickline.config import Job
from clickline.net.addresses import tcp
from clickline.processes.process import Spec

_LONGEST_SOCKET = 100
"""Linux allows 107 bytes for the path of a socket, macOS 103."""
_LONGEST_NAME = len("/clickline-12345678/pserver.4095.sock.coordinator")


@contextmanager
def private_sockets() -> Iterator[Path]:
    """A directory that is ours alone, with a path short enough for sockets; gone afterwards."""
    parent = tempfile.gettempdir()
    if len(os.fsencode(parent)) + _LONGEST_NAME > _LONGEST_SOCKET:
        parent = "/tmp"  # noqa: S108  (mkdtemp below makes a directory that only we can enter)
    directory = Path(tempfile.mkdtemp(prefix="clickline-", dir=parent))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def pserver_addresses(job: Job, *, sockets: Path) -> list[str]:
    """Where the parameter servers will listen: sockets, or ports that are free now, as `cluster.transport` says."""
    count = job.cluster.pservers
    if job.cluster.transport == "unix":
        return [f"unix:{sockets}/pserver.{rank}.sock" for rank in range(count)]
    host = job.cluster.host
    return [tcp(host, port, source="cluster.host") for port in free_ports(host, count)]


def coordinator_address(job: Job, *, sockets: Path) -> str:
    """Where the coordinator may listen; with TCP it finds a port itself."""
    if job.cluster.transport == "unix":
        return f"unix:{sockets}/coordinator.sock"
    host = job.cluster.host
    return f"tcp:[{host}]:0" if ":" in host else f"tcp:{host}:0"


def local_specs(
    job: Job, *, job_file: Path, directory: Path, sockets: Path, token: str | bytes, coordinator: str
) -> list[Spec]:
    """What to start: the parameter servers, then the trainers.

    `job_file` holds the job as resolved, `coordinator` is the address where it listens already.
    """
    pservers = pserver_addresses(job, sockets=sockets)
    shared = {
        "CLICKLINE_PSERVERS": ",".join(pservers),
        "CLICKLINE_TRAINERS": str(job.cluster.trainers),
        "CLICKLINE_COORDINATOR": coordinator,
        "CLICKLINE_TOKEN": token if isinstance(token, str) else token.decode(),
        "CLICKLINE_DIRECTORY": str(directory.absolute()),
        "CLICKLINE_NODE": "0",
        "CLICKLINE_METRICS": "",  # what is set is the address of one process, and this one has it
    }
    specs = [
        _spec("pserver", rank, job_file=job_file, directory=directory, env={**shared, "CLICKLINE_BIND": address})
        for rank, address in enumerate(pservers)
    ]
    return specs + [
        trainer_spec(job, rank, job_file=job_file, directory=directory, env=shared)
        for rank in range(job.cluster.trainers)
    ]


def trainer_spec(job: Job, rank: int, *, job_file: Path, directory: Path, env: dict[str, str]) -> Spec:
    """One trainer; `env` as of another process of the job, so that one can be added later."""
    threads = str(threads_for(job))
    # OMP_NUM_THREADS counts when PyTorch is loaded, before the process reads its job. A trainer listens nowhere.
    own = {**env, "CLICKLINE_BIND": "", "CLICKLINE_THREADS": threads, "OMP_NUM_THREADS": threads}
    return _spec("trainer", rank, job_file=job_file, directory=directory, env=own)


def _spec(role: str, rank: int, *, job_file: Path, directory: Path, env: dict[str, str]) -> Spec:
    return Spec(
        role=role,
        rank=rank,
        argv=[sys.executable, "-m", "clickline", role, str(job_file)],
        env={**env, "CLICKLINE_ROLE": role, "CLICKLINE_RANK": str(rank)},
        log=directory / "logs" / f"{role}.{rank}.log",
        spare=role == "trainer",
    )


def threads_for(job: Job) -> int:
    """For dense maths in each trainer started here."""
    return job.cluster.threads or max(1, len(os.sched_getaffinity(0)) // job.cluster.trainers)


def free_ports(host: str, count: int) -> list[int]:
    """Free ports. Held open together, so that they differ; another process may still take one after us."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # One closed before the next is opened could be given out twice.
    with ExitStack() as stack:
        held = [stack.enter_context(socket.socket(family)) for _ in range(count)]
        for each in held:
            each.bind((host, 0))
        return [each.getsockname()[1] for each in held]
