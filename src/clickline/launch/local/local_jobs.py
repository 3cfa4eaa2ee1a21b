"""A job on this machine by its record, which is written while it trains: `clickline jobs` and others find it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from clickline.config import Job
from clickline.errors import PeerError
from clickline.launch.job_records import JobHost, JobRecord, kept_record, new_job_name, new_record, write_record

_HERE = "localhost"


@contextmanager
def recorded(job: Job, directory: Path, *, name: str = "") -> Iterator[JobRecord]:
    """Keep a record of a run that this process trains; `name` is the job's identifier, if it has one already."""
    path = str(directory.absolute())
    record = new_record(
        name or new_job_name(), name=job.name, launcher="local", run_directory=path, hosts=[JobHost(_HERE, path)]
    )
    with kept_record(record, _write):
        yield record


def _write(record: JobRecord) -> None:
    # A home directory that cannot be written to is no reason not to train here.
    with suppress(OSError):
        write_record(record)


def stop_job(record: JobRecord) -> Mapping[str, str]:
    """Nothing to do: the processes of a run on this machine end with the one that launched them."""
    return {record.hosts[0].host: "nothing is running"}


def read_status(record: JobRecord) -> bytes:
    return _read(Path(record.run_directory) / "status.json")


def read_log(record: JobRecord, process: str) -> bytes:
    return _read(Path(record.run_directory) / "logs" / f"{process}.log")


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise PeerError(f"{path}: cannot be read: {error}") from None
