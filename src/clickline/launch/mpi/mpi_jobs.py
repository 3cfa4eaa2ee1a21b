"""A job of MPI ranks by its record, on the machine of rank 0: its processes end with the ranks that run them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from clickline.errors import PeerError
from clickline.launch.job_records import JobRecord


def stop_job(record: JobRecord) -> Mapping[str, str]:
    """Nothing to do once rank 0 is gone: every rank stops its processes when it has lost rank 0."""
    return {entry.host: "stops with rank 0" for entry in record.hosts}


def read_status(record: JobRecord) -> bytes:
    """The run's status.json, which is on the host of rank 0."""
    return _read(Path(record.run_directory) / "status.json")


def read_log(record: JobRecord, process: str) -> bytes:
    """The log of a process that ran on this host, or on one that shares the directory of jobs."""
    for entry in record.hosts:
        if (file := Path(entry.directory) / "log" / f"{process}.log").exists():
            return _read(file)
    raise PeerError(f"no log of {process!r} on this host; all of them, merged, are in {record.log}")


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise PeerError(f"{path}: cannot be read: {error}") from None
