"""What can be done with a job on ssh hosts from its record alone: its status, its logs, its end."""

from __future__ import annotations

import shlex
from concurrent.futures import ThreadPoolExecutor

from clickline.config.hosts import Host
from clickline.errors import PeerError
from clickline.launch.job_records import JobHost, JobRecord
from clickline.launch.ssh.remote import script
from clickline.launch.ssh.ssh_client import run_on


def stop_job(record: JobRecord) -> dict[str, str]:
    """Stop what a job has running on its hosts; by host, what came of it."""

    def stop(entry: JobHost) -> str:
        command = [*shlex.split(entry.python), "-", entry.directory]
        try:
            return run_on(_host(entry), command, content=script("stop_job").encode()).decode().strip()
        except PeerError as error:
            return str(error)

    with ThreadPoolExecutor(max(1, len(record.hosts))) as pool:
        return dict(zip((entry.host for entry in record.hosts), pool.map(stop, record.hosts), strict=True))


def read_status(record: JobRecord) -> bytes:
    """The run's status.json, from the first host."""
    return run_on(_host(record.hosts[0]), ["cat", f"{record.run_directory}/status.json"])


def read_log(record: JobRecord, process: str) -> bytes:
    """The log of a process, from whichever host has it. Raises PeerError if none has."""
    reasons = []
    for entry in record.hosts:
        try:
            return run_on(_host(entry), ["cat", f"{entry.directory}/log/{process}.log"])
        except PeerError as error:
            reasons.append(str(error))
    raise PeerError(f"no log of {process!r} on any host: {'; '.join(reasons)}")


def _host(entry: JobHost) -> Host:
    return Host(host=entry.host, ssh_port=entry.ssh_port, python=entry.python)
