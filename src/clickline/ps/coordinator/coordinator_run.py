"""A coordinator from start to end: in a process of its own, or on a thread of server 0.

How a run begins is said once, by the options of the process that leads it. A launcher that starts this process again,
or Kubernetes that replaces its pod, repeats the options; `CLICKLINE_LAUNCH` tells that from another start of the job.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from clickline.config import Job
from clickline.errors import CheckpointError
from clickline.progress import LogOnly, Watcher
from clickline.ps.coordinator.coordinator import Coordinator
from clickline.ps.coordinator.opening import open_coordinator
from clickline.ps.coordinator.state.record import RunRecord, read_record
from clickline.ps.process_role import ProcessRole
from clickline.train.monitoring.final_status import leave_final_status
from clickline.train.preflight import check_options
from clickline.train.run_files.run_directory import fetched_checkpoint
from clickline.train.run_files.run_lock import RunLock
from clickline.train.run_files.run_result import Result, write_result_file
from clickline.train.run_storage.held_run import held_run

log = logging.getLogger("clickline.cluster")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBeginning:
    """How a run begins, with checkpoints where this process can read them."""

    resume: bool | Path = False
    fresh: bool = False
    warm_start: Path | None = None


def beginning_of(
    role: ProcessRole, *, resume: bool | str | Path, fresh: bool, warm_start: str | Path | None
) -> RunBeginning | None:
    """How the run begins by the options of this process; None if the same start of the job has finished it already.

    The run of a coordinator that was killed before it was finished is taken up.
    """
    for notice in check_options(resume=bool(resume), fresh=fresh, warm_start=warm_start is not None):
        log.warning("%s", notice)
    earlier = _record_of(role.launch, role.directory)
    if earlier is not None:
        if earlier.phase == "finished":
            log.info("the run was finished before this process was started again")
            return None
        # The options are those of the first time, and were carried out then. A run that had failed goes on from its
        # last checkpoint; what was only killed is taken up where it stood.
        return RunBeginning(resume=earlier.phase in ("failed", "interrupted") and earlier.checkpoint is not None)
    return RunBeginning(
        resume=resume if isinstance(resume, bool) else fetched_checkpoint(resume),
        fresh=fresh,
        warm_start=None if warm_start is None else fetched_checkpoint(warm_start),
    )


def run_coordinator(
    job: Job,
    role: ProcessRole,
    *,
    resume: bool | str | Path = False,
    fresh: bool = False,
    warm_start: str | Path | None = None,
    watcher: Watcher | None = None,
) -> Result | None:
    """Coordinate one run; None if it had been finished by the time that its launcher started this process again."""
    watcher = watcher or LogOnly()
    beginning = beginning_of(role, resume=resume, fresh=fresh, warm_start=warm_start)
    if beginning is None:
        return None
    with held_run(
        job,
        role="coordinator",
        watcher=watcher,
        resume=beginning.resume,
        fresh=beginning.fresh,
        takes_up=True,
        directory=role.directory,
    ) as lock:
        coordinator = _opened(job, role, beginning, lock=lock, watcher=watcher)
        try:
            result = coordinator.run()
        finally:
            coordinator.close()
        return write_result(coordinator, result, lock=lock)


class CoordinatorThread(threading.Thread):
    """The coordinator on a thread of the first server's process, for jobs that name no other."""

    def __init__(self, job: Job, role: ProcessRole, beginning: RunBeginning) -> None:
        super().__init__(name="clickline-coordinator", daemon=True)
        self.failure: Exception | None = None
        self._held = ExitStack()
        self._lock = self._held.enter_context(
            held_run(
                job,
                role="pserver 0, the coordinator in it",
                watcher=LogOnly(),
                resume=beginning.resume,
                fresh=beginning.fresh,
                takes_up=True,
                directory=role.directory,
            )
        )
        # Opened here and not on the thread: a run that cannot begin must fail this process before the server listens.
        try:
            # Without the environment, which is about the server.
            self.coordinator = _opened(job, role, beginning, lock=self._lock, watcher=LogOnly(), environ={})
        except BaseException:
            self._held.__exit__(*sys.exc_info())
            raise
        self.start()

    def run(self) -> None:
        try:
            with self._held:
                try:
                    result = self.coordinator.run()
                finally:
                    self.coordinator.close()
                write_result(self.coordinator, result, lock=self._lock)
                leave_final_status(self.coordinator.status())
        except Exception as error:
            self.failure = error
            log.error("%s", error)


def write_result(coordinator: Coordinator, result: Result, *, lock: RunLock) -> Result:
    """Write what a run came to, and what happened on the way, to its directory."""
    return write_result_file(lock, result, coordinator.account())


def _opened(
    job: Job,
    role: ProcessRole,
    beginning: RunBeginning,
    *,
    lock: RunLock,
    watcher: Watcher,
    environ: Mapping[str, str] | None = None,
) -> Coordinator:
    return open_coordinator(
        job,
        lock=lock,
        address=role.coordinator_bind,
        token=role.token,
        resume=beginning.resume,
        fresh=beginning.fresh,
        warm_start=beginning.warm_start,
        watcher=watcher,
        recover=True,
        launch=role.launch,
        environ=environ,
    )


def _record_of(launch: str, directory: Path) -> RunRecord | None:
    """What a coordinator of the same start of the job has left; None if this one is the first."""
    if not launch:
        return None
    try:
        record = read_record(directory)
    except CheckpointError:  # of which start it was is unknown; `open_coordinator` goes on from a checkpoint
        return None
    return record if record is not None and record.launch == launch else None
