"""Records of jobs that were started from here, one file each, whichever launcher started them.

`clickline jobs` lists them; `status`, `logs` and `stop` find a job by its record. A record is written by the process
that launched the job; when that process is gone without a last word, the job counts as lost, and `stop` still reaches
what it may have left on its hosts.
"""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path

import msgspec

from clickline.errors import JobError
from clickline.files.atomic import replace_file
from clickline.files.typed_json import decode_json
from clickline.processes.process_identity import birth, machine, proven_dead

_LIMIT = 1 << 20
_KEPT = 500
_NAME = re.compile(r"JOB[0-9]{1,14}(-[0-9a-f]{0,4})?")
VARIABLE = "CLICKLINE_STATE"
"""Directory of records, in place of the user's own."""


class JobPhase(StrEnum):
    """How far a job has come."""

    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    STOPPED = "stopped"
    LOST = "lost"
    """Its launcher ended without a last word. Never written: it is what a reader finds out."""


class JobHost(msgspec.Struct, frozen=True, omit_defaults=True):
    """One host of a job."""

    host: str
    directory: str
    """The job's directory there."""
    ssh_port: int = 0
    python: str = "python3"


class JobRecord(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One job."""

    job: str
    """JOB, the time, and a few random digits."""
    name: str
    """Of the run, as the job file says."""
    launcher: str
    """local, ssh, mpi, ray, kubernetes."""
    run_directory: str
    """Checkpoints and results, on the first host."""
    hosts: list[JobHost] = []
    cluster: str = ""
    """Address of the cluster, where a launcher has one that is its own: ray, kubernetes."""
    phase: JobPhase = JobPhase.RUNNING
    started: float = 0.0
    ended: float = 0.0
    reason: str = ""
    """Why it failed, if so."""
    log: str = ""
    """What all processes have written, here."""
    pid: int = 0
    """Of the launcher, with its machine and birth: tells it from a later process of the same number."""
    machine: str = ""
    born: int = 0

    @property
    def phase_now(self) -> JobPhase:
        """The phase; lost if the launcher has died meanwhile."""
        # Proven: on another machine nothing is known of the launcher, and its job counts as running.
        dead = proven_dead(on=self.machine, pid=self.pid, born=self.born)
        return JobPhase.LOST if self.phase == JobPhase.RUNNING and dead else self.phase


def new_job_name() -> str:
    """JOB, the time, and a few random digits: two jobs that begin in the same second differ."""
    return "JOB" + time.strftime("%Y%m%d%H%M%S") + "-" + secrets.token_hex(2)


def new_record(job: str, *, name: str, launcher: str, run_directory: str, hosts: list[JobHost]) -> JobRecord:
    """The record of a job that this process launches."""
    return JobRecord(
        job=job,
        name=name,
        launcher=launcher,
        run_directory=run_directory,
        hosts=hosts,
        started=time.time(),
        log=str(records_directory() / f"{job}.log"),
        pid=os.getpid(),
        machine=machine(),
        born=birth(os.getpid()),
    )


def records_directory() -> Path:
    """Where records are."""
    given = os.environ.get(VARIABLE)
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "clickline" / "jobs"


def write_record(record: JobRecord) -> None:
    """Write a record, and forget the oldest ones of jobs that have ended."""
    directory = records_directory()
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace_file(directory / f"{record.job}.json", msgspec.json.encode(record))
    names = sorted(directory.glob("JOB*.json"))  # by time, as their names begin with it
    for path in names[:-_KEPT]:
        with suppress(OSError, msgspec.MsgspecError):
            if path.stat().st_size > _LIMIT or decode_json(path.read_bytes(), JobRecord).phase != JobPhase.RUNNING:
                path.unlink()
                path.with_suffix(".log").unlink(missing_ok=True)


@contextmanager
def kept_record(record: JobRecord, write: Callable[[JobRecord], None] = write_record) -> Iterator[None]:
    """Write the record of a job at the beginning, and at the end with what came of it."""
    write(record)
    try:
        yield
    except BaseException as error:
        interrupted = isinstance(error, KeyboardInterrupt)
        record.phase = JobPhase.STOPPED if interrupted else JobPhase.FAILED
        record.reason = "interrupted" if interrupted else str(error)
        raise
    else:
        record.phase = JobPhase.FINISHED
    finally:
        record.ended = time.time()
        write(record)


def is_job_name(text: str) -> bool:
    """Whether a text can be the identifier of a job, or the beginning of one."""
    return _NAME.fullmatch(text) is not None


def read_record(job: str) -> JobRecord:
    """The record of a job, by its identifier, its beginning, or the name of its run (the newest one then)."""
    records = list_records()
    for record in records:
        if record.job == job:
            return record
    # A run may have been started many times under its name, so the newest is meant; a beginning that fits two jobs is
    # refused, since `stop` could end the wrong one.
    fitting = [record for record in records if record.job.startswith(job)] or [r for r in records if r.name == job][-1:]
    if len(fitting) == 1:
        return fitting[0]
    known = ", ".join(record.job for record in records[-5:]) or "none"
    what = "no job" if not fitting else f"{len(fitting)} jobs"
    raise JobError(f"{what} {job!r} in {records_directory()}; the last ones: {known}")


def check_machine(record: JobRecord) -> None:
    """Raise JobError unless the launcher of a job ran on this machine: elsewhere its number means another process."""
    if record.machine != machine():
        raise JobError(f"{record.job} was started on another machine, which shares this directory: stop it from there")


def list_records() -> list[JobRecord]:
    """All records that can be read, oldest first."""
    records = []
    for path in sorted(records_directory().glob("*.json")):
        try:
            if path.stat().st_size <= _LIMIT:
                records.append(decode_json(path.read_bytes(), JobRecord))
        except (OSError, msgspec.MsgspecError):
            continue
    return sorted(records, key=lambda record: record.started)
