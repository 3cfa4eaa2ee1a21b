"""Opening a coordinator: where its run begins, or is taken up, and that it can."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from clickline.config import Job
from clickline.data.schema import Schema
from clickline.errors import CheckpointError
from clickline.files.atomic import replace_json
from clickline.progress import Watcher
from clickline.ps.coordinator.coordinator import Coordinator, StartingPoint
from clickline.ps.coordinator.state.leased_work import released
from clickline.ps.coordinator.state.record import RecordFile, RunRecord, record_in
from clickline.train.checkpoints import checkpoint_files
from clickline.train.checkpoints.resume import check_same_job, checkpoint_to_resume
from clickline.train.checkpoints.warm_start import describe_start, given_start, kept_start, schema_for
from clickline.train.run_files.run_directory import write_job
from clickline.train.run_files.run_lock import RunLock

_GAP = 1_000_000
"""Generations and leases that a coordinator skips which does not know how many there were."""


def open_coordinator(
    job: Job,
    *,
    lock: RunLock,
    address: str,
    token: bytes,
    resume: bool | Path,
    fresh: bool,
    watcher: Watcher,
    warm_start: Path | None = None,
    recover: bool = False,
    launch: str = "",
    environ: Mapping[str, str] | None = None,
) -> Coordinator:
    """A coordinator that listens, with its record where the run is.

    `recover`: a run whose coordinator was killed is taken up, with the servers and trainers that are still there.
    `launch`: the name of this start of the job, which the record keeps.
    """
    directory, file = lock.directory, RecordFile(lock)
    start = None
    if recover and not fresh and not resume:
        start = _left_behind(job, file, directory=directory, watcher=watcher)
    if start is not None:
        watcher.say(
            "taking up the run where the coordinator before stood: "
            f"epoch {start.record.epoch + 1}, step {start.record.step}"
        )
    else:
        old = checkpoint_to_resume(directory, resume=resume, fresh=fresh)
        record = (
            _first_record(job, directory, warm_start, watcher) if old is None else _resumed_record(job, old, directory)
        )
        start = StartingPoint(record, verified=_verify(record, watcher))
        # Last, so that a start that is refused above leaves the earlier run as it was. Removed, so that a later
        # coordinator does not take up the earlier run if this one dies before its first save.
        file.remove()
    # Also of a run that is taken up or resumed: its record may be of an earlier start of the job, and the next process
    # that is started in this one's place must find itself in it.
    start.record.launch = launch
    schema = _schema(job, directory, start)
    write_job(directory, job)
    return Coordinator(
        job=job,
        schema=schema,
        directory=directory,
        address=address,
        token=token,
        watcher=watcher,
        file=file,
        start=start,
        environ=environ,
    )


def _verify(record: RunRecord, watcher: Watcher) -> frozenset[str]:
    """Read through the checkpoint that servers will load first; a run that is taken up does so when it must load."""
    path = record.checkpoint or record.warm
    if path is None:
        return frozenset()
    watcher.begin(f"verifying {path}")
    checkpoint_files.verify(checkpoint_files.read(Path(path)))
    watcher.end()
    return frozenset([path])


def _left_behind(job: Job, file: RecordFile, *, directory: Path, watcher: Watcher) -> StartingPoint | None:
    """Where a coordinator before this one was, if it was not finished."""
    try:
        record = file.read()
    except CheckpointError as error:
        old = checkpoint_files.newest_sound(directory / "checkpoints")
        if old is None:
            raise CheckpointError(
                f"{error}; there is no sound checkpoint to go on from instead: remove it to start anew"
            ) from error
        record = _resumed_record(job, old, directory)
        # Everybody who has lived on goes back to the checkpoint. Of what was numbered since, nothing may be taken for
        # something new.
        record.generation += _GAP
        record.next_lease += _GAP
        record.faults.append(f"{error}; all go on from {old.path}")
        watcher.say(record.faults[-1])
        return StartingPoint(record, taking_over=True, guessed=True)
    if record is None or record.phase in ("finished", "failed", "interrupted"):
        return None
    return StartingPoint(record, taking_over=True)


def _first_record(job: Job, directory: Path, warm_start: Path | None, watcher: Watcher) -> RunRecord:
    """The record of a run that begins: with the weights that it is given, if any."""
    given = given_start(directory, warm_start)
    if given is None:
        return RunRecord()
    watcher.say(describe_start(warm_start, given, job.tables))
    return RunRecord(warm=str(given.path), step=given.step, first_step=given.step, tick=given.step)


def _resumed_record(job: Job, old: checkpoint_files.Checkpoint, directory: Path) -> RunRecord:
    """The record of a run that resumes from a checkpoint."""
    check_same_job(job, old.manifest["job"], where=old.path)
    record = record_in(old, job=job)
    record.checkpoint, record.warm = str(old.path), kept_start(directory, record.warm)
    record.test, record.faults = {}, []
    if record.book is None:  # the next epoch may be cut as suits the trainers of now
        record.cut_for, record.cut_bytes, record.cut_nodes = 0, None, []
    else:
        record.book = released(record.book, first=record.next_lease).to_dict()
    return record


def _schema(job: Job, directory: Path, start: StartingPoint) -> Schema:
    """The schema of the checkpoint, or one that is fitted to the data once: a run that is taken up keeps its own."""
    record = start.record
    if record.checkpoint is not None:
        return Schema.from_dict(checkpoint_files.read(Path(record.checkpoint)).manifest["schema"])
    file = directory / "schema.json"
    if start.taking_over and file.is_file():
        try:
            return Schema.from_dict(json.loads(file.read_text(encoding="utf-8")))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CheckpointError(
                f"{file}: not readable: {error}; without it the run cannot be taken up: --fresh starts over"
            ) from error
    schema = schema_for(job, None if record.warm is None else checkpoint_files.read(Path(record.warm)))
    try:
        replace_json(file, schema.to_dict(), indent=None)
    except OSError as error:
        raise CheckpointError(f"{file}: cannot be written: {error}") from error
    return schema
