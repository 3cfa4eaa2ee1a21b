"""Training on this machine by as many processes as the job wants: started, watched, and gone when it is over."""

from __future__ import annotations

import json
import os
import secrets
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import fields
from pathlib import Path
from threading import current_thread, main_thread

from clickline.collective.rank import in_a_group, read_rank
from clickline.config import Job
from clickline.config.run_location import run_directory_of
from clickline.data.leasing.pieces import shortage, split_into_pieces
from clickline.errors import PeerError
from clickline.launch.environment import run_directory_here
from clickline.launch.local.local_processes import (
    coordinator_address,
    free_ports,
    local_specs,
    private_sockets,
    threads_for,
)
from clickline.launch.run_log import run_log
from clickline.processes.child import launched, stopped_by_signals
from clickline.processes.process import Spec
from clickline.processes.process_events import ProcessEvent
from clickline.processes.supervisor import Supervisor
from clickline.progress import LogOnly, Watcher
from clickline.ps.coordinator.coordinator import Coordinator
from clickline.ps.coordinator.coordinator_run import write_result
from clickline.ps.coordinator.opening import open_coordinator
from clickline.train.checkpoints import checkpoint_files
from clickline.train.checkpoints.resume import check_same_job, checkpoint_to_resume, refuse_position
from clickline.train.interrupts import TrainingInterrupted
from clickline.train.loop.piece_share import piece_bytes_for
from clickline.train.monitoring.run_status import end_status, reason_of
from clickline.train.preflight import check_job, check_options
from clickline.train.run_files.own_code import use_own_code
from clickline.train.run_files.run_directory import JOB_FILE, fetched_checkpoint, find_checkpoint, write_job
from clickline.train.run_files.run_lock import VARIABLE as LOCK_VARIABLE
from clickline.train.run_files.run_lock import RunLock
from clickline.train.run_files.run_result import Result
from clickline.train.run_storage.held_run import held_run
from clickline.train.run_storage.run_copy import code_directory

_MOMENT = 3.0
_GRACE = 5.0
_FAREWELL = 20.0


def train_job(
    job: Job,
    *,
    resume: bool | str | Path = False,
    fresh: bool = False,
    warm_start: str | Path | None = None,
    watcher: Watcher | None = None,
    checked: bool = False,
) -> Result:
    """Train a job in `output/name`, which may be at a URL, and test it, the way it names.

    `resume` goes on from the newest checkpoint there (or from the one named); `fresh` throws away what is there; with
    neither, a directory that has checkpoints is refused. `warm_start` begins with another checkpoint's weights. Both
    may name a checkpoint at a URL.
    `checked`: the caller has run the checks of `clickline validate` already.
    """
    directory = run_directory_of(job)
    # The job of a run that exists may name files of the user's own that are found only as the run's copies.
    if resume or launched():
        use_own_code(code_directory(job, of_url=not launched()))
    for notice in [
        *([] if checked else map(str, check_job(job))),
        *check_options(resume=bool(resume), fresh=fresh, warm_start=warm_start is not None),
    ]:
        (watcher or LogOnly()).say(notice)
    strategy, shown = job.resolved_strategy, None if type(watcher) is LogOnly else watcher
    # Only rank 0 looks for checkpoints; the others may be on hosts that do not have them.
    fetched = Path if strategy == "collective" and in_a_group() and read_rank().rank else fetched_checkpoint
    if not isinstance(resume, bool):
        resume = fetched(resume)
    warm_start = None if warm_start is None else fetched(warm_start)
    if strategy == "single":
        from clickline.train import session

        with (
            # Python sets signal handlers in the main thread only, and a program may train in any.
            stopped_by_signals() if current_thread() is main_thread() else nullcontext(),
            run_log(directory, rank=0, watcher=shown) as logged,
        ):
            return session.train_job(job, resume=resume, fresh=fresh, warm_start=warm_start, watcher=logged)
    if strategy == "collective":
        if in_a_group():
            from clickline.collective.rank_session import train_collective

            rank, directory = read_rank().rank, run_directory_here(job, os.environ)
            shown_here = shown if rank == 0 else None
            with nullcontext(watcher) if launched() else run_log(directory, rank=rank, watcher=shown_here) as logged:
                return train_collective(
                    job, resume=resume, fresh=fresh, warm_start=warm_start, watcher=logged, directory=directory
                )
        return _train_in_ranks(job, resume=resume, fresh=fresh, warm_start=warm_start, watcher=watcher or LogOnly())
    return _train_on_servers(job, resume=resume, fresh=fresh, warm_start=warm_start, watcher=watcher or LogOnly())


def _train_on_servers(
    job: Job, *, resume: bool | Path, fresh: bool, warm_start: Path | None, watcher: Watcher
) -> Result:
    token = secrets.token_hex(32)
    with (
        stopped_by_signals(),
        private_sockets() as sockets,
        held_run(job, role="train", watcher=watcher, resume=resume, fresh=fresh) as lock,
    ):
        directory = lock.directory
        # It runs in this process, and listens before any other is started: they are told its address.
        coordinator = open_coordinator(
            job,
            lock=lock,
            address=coordinator_address(job, sockets=sockets),
            token=token.encode(),
            resume=resume,
            fresh=fresh,
            warm_start=warm_start,
            watcher=watcher,
        )
        try:
            specs = local_specs(
                job,
                job_file=directory / JOB_FILE,
                directory=directory,
                sockets=sockets,
                token=token,
                coordinator=coordinator.address,
            )
            with Supervisor(specs, restarts=job.cluster.restarts, on_event=_said_by(watcher)) as supervisor:
                try:
                    result = coordinator.run(
                        poll=_PollAndReport(supervisor, coordinator), expected_trainers=lambda: _coming(supervisor)
                    )
                except PeerError:
                    _await_failure(supervisor)
                    raise
                # Told first, members leave by themselves; what has not left by then is stopped by the supervisor.
                coordinator.dismiss()
                _await_ends(supervisor)
        finally:
            coordinator.close(patience=0)  # no member is left to say goodbye
        return write_result(coordinator, result, lock=lock)


def _said_by(watcher: Watcher) -> Callable[[ProcessEvent], None]:
    return lambda event: watcher.say(str(event))


def _coming(supervisor: Supervisor) -> int:
    """How many trainers run, or will."""
    states = [state["state"] for state in supervisor.states() if state["role"] == "trainer"]
    return sum(state in ("new", "running", "waiting") for state in states)


def _await_failure(supervisor: Supervisor) -> None:
    """Wait a moment for the process that failed to end: `poll` then raises why, with its last log lines."""
    until = time.monotonic() + _MOMENT
    while time.monotonic() < until:
        supervisor.poll()
        time.sleep(0.05)


def _await_ends(supervisor: Supervisor) -> None:
    """Wait until all processes have ended; the supervisor stops those that have not by then."""
    until = time.monotonic() + _FAREWELL
    while not supervisor.finished() and time.monotonic() < until:
        supervisor.poll()
        time.sleep(0.05)


class _PollAndReport:
    """Polls the supervisor, and reports deaths to the coordinator before heartbeats would be missed."""

    def __init__(self, supervisor: Supervisor, coordinator: Coordinator) -> None:
        self._supervisor, self._coordinator = supervisor, coordinator
        self._reported = 0

    def __call__(self) -> None:
        try:
            # `poll` raises when the run cannot go on; the deaths that led to it are reported all the same.
            self._supervisor.poll()
        finally:
            for ending in self._supervisor.endings[self._reported :]:
                role, _, rank = ending.name.rpartition(".")
                self._coordinator.failures.process_ended(role, int(rank), f"died, {ending.reason}", pid=ending.pid)
                self._reported += 1


def _train_in_ranks(job: Job, *, resume: bool | Path, fresh: bool, warm_start: Path | None, watcher: Watcher) -> Result:
    """Collective training by processes started here, as torchrun would start them."""
    with (
        stopped_by_signals(),
        held_run(job, role="train", watcher=watcher, resume=resume, fresh=fresh) as lock,
    ):
        directory = lock.directory
        _check_start(job, directory, resume=resume, fresh=fresh, warm_start=warm_start)
        specs = _ranks(job, lock=lock, resume=resume, fresh=fresh, warm_start=warm_start)
        watcher.begin(f"training in {len(specs)} ranks; their logs are in {directory / 'logs'}")
        _say_shortage(job, watcher)
        outcome = directory / "result.json"
        # Otherwise the result of an earlier run could be taken for that of this one.
        outcome.unlink(missing_ok=True)
        try:
            # Ranks that are told to stop end their step and save, each within the job's limit.
            grace = 2 * job.checkpoint.interrupt_timeout + _GRACE
            # No restarts: without one rank the collective operations of all the others fail.
            with Supervisor(specs, restarts=0, on_event=_said_by(watcher), grace=grace) as supervisor:
                supervisor.wait()
        except KeyboardInterrupt as error:
            end_status(lock, error)
            raise TrainingInterrupted(reason_of(lock.directory) or str(error)) from error
        except BaseException as error:
            end_status(lock, error)
            raise
        finally:
            watcher.end()
        result = json.loads(outcome.read_text(encoding="utf-8"))
    paths = {name: Path(result[name]) for name in ("directory", "checkpoint")}
    return Result(**{field.name: result[field.name] for field in fields(Result) if field.name in result} | paths)


def _check_start(job: Job, directory: Path, *, resume: bool | Path, fresh: bool, warm_start: Path | None) -> None:
    """Refuse here what rank 0 would refuse: by its own error, and before ranks are started that would all fail."""
    old = None if fresh else checkpoint_to_resume(directory, resume=resume, fresh=False)
    if old is not None:
        check_same_job(job, old.manifest["job"], where=old.path)
        refuse_position(old, way="ranks")
    elif warm_start is not None:
        old = find_checkpoint(warm_start)
    if old is not None:
        checkpoint_files.verify(old)


def _say_shortage(job: Job, watcher: Watcher) -> None:
    """Ranks that are started here have no terminal, so it is said here if some of them will have nothing to read."""
    ranks, paths = job.cluster.trainers, job.data.train
    if not paths:
        return
    pieces = split_into_pieces(job.data, paths, piece_bytes=piece_bytes_for(job, paths, ranks=ranks), trainers=ranks)
    if (idle := shortage(len(pieces), trainers=ranks)) is not None:
        watcher.say(idle)


def _ranks(job: Job, *, lock: RunLock, resume: bool | Path, fresh: bool, warm_start: Path | None) -> list[Spec]:
    """The ranks to start. They meet on `cluster.host`, the loopback address unless the job says otherwise."""
    directory = lock.directory
    job_file = write_job(directory, job)
    argv = [sys.executable, "-m", "clickline", "train", str(job_file)]
    if resume:
        argv += ["--resume-from", str(resume)] if isinstance(resume, Path) else ["--resume"]
    argv += ["--fresh"] if fresh else []
    argv += ["--warm-start", str(warm_start)] if warm_start else []
    ranks, threads = job.cluster.trainers, str(threads_for(job))
    shared = {
        "WORLD_SIZE": str(ranks),
        "MASTER_ADDR": job.cluster.host,
        "MASTER_PORT": str(free_ports(job.cluster.host, 1)[0]),
        "CLICKLINE_TOKEN": secrets.token_hex(32),
        "CLICKLINE_DIRECTORY": str(directory),
        LOCK_VARIABLE: lock.nonce,  # rank 0 writes in our stead
        "OMP_NUM_THREADS": threads,
        "TORCH_CPP_LOG_LEVEL": "ERROR",  # else PyTorch prints stack frames when a peer dies
    }
    return [
        Spec(
            role="trainer",
            rank=rank,
            argv=[*argv, "--set", f"cluster.threads={threads}"],
            env={
                **shared,
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                # The address of one process: rank 0's, which knows the run.
                "CLICKLINE_METRICS": os.environ.get("CLICKLINE_METRICS", "") if rank == 0 else "",
            },
            log=directory / "logs" / f"trainer.{rank}.log",
            restart=False,
        )
        for rank in range(ranks)
    ]
