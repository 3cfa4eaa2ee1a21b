"""Training as one rank of several; train/session.py is the same for one process.

A process is a rank when RANK and WORLD_SIZE are in its environment: torchrun puts them there, and so does the local
launcher. All ranks need the same job and see the same data. The run's directory is on the host of rank 0.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch

from clickline.collective.checkpoint_copies import CheckpointCopies
from clickline.collective.group import Group, join
from clickline.collective.rank import Rank
from clickline.collective.rank_checkpoints import RankCheckpoints
from clickline.collective.rank_exchange import RankExchange
from clickline.collective.rank_learner import RankLearner
from clickline.collective.rank_metrics import RankMetrics
from clickline.collective.rank_process import RankProcess
from clickline.config import Job
from clickline.config.run_location import run_directory_of
from clickline.data.schema import Schema
from clickline.errors import PeerError
from clickline.progress import LogOnly, Watcher
from clickline.train.checkpoints.checkpoint_files import Checkpoint
from clickline.train.checkpoints.resume import check_same_job, checkpoint_to_resume
from clickline.train.checkpoints.warm_start import describe_start, given_start, schema_for
from clickline.train.interrupts import Interrupts, handlers_restored
from clickline.train.loop.run import Run
from clickline.train.monitoring.journal import Journal
from clickline.train.monitoring.run_status import RunStatus
from clickline.train.run_files.run_directory import write_job
from clickline.train.run_files.run_lock import VARIABLE, RunLock
from clickline.train.run_files.run_result import Result, write_result_file
from clickline.train.run_storage.held_run import held_run
from clickline.train.session import train_and_test


class NoJournal(Journal):
    """A journal that writes nothing, for all ranks but the first."""

    def __init__(self) -> None:
        pass

    def line(self, *, kind: str, step: int, epoch: int, figures: Mapping[str, float]) -> None:
        pass

    def close(self) -> None:
        pass


def train_collective(
    job: Job,
    *,
    resume: bool | Path = False,
    fresh: bool = False,
    warm_start: Path | None = None,
    watcher: Watcher | None = None,
    directory: Path | None = None,
) -> Result:
    """Train a job as the rank that the environment names, and test it. All ranks return the same result.

    The arguments are those of `train_job`; only rank 0 tells the watcher anything. `directory` is the run's, on the
    host of rank 0, if it is not the one of the job.
    """
    group = join(job.cluster)
    with handlers_restored(), group.telling():
        result = run_rank(
            job,
            group=group,
            resume=resume,
            fresh=fresh,
            warm_start=warm_start,
            watcher=watcher if watcher is not None and group.first else LogOnly(),
            directory=directory or run_directory_of(job),
        )
        group.leave()
    return result


def run_rank(
    job: Job,
    *,
    group: Group,
    resume: bool | Path,
    fresh: bool,
    warm_start: Path | None,
    watcher: Watcher,
    directory: Path,
) -> Result:
    """A rank's part in a run, from the first agreement to the result. Rank 0 writes for all, and holds the lock."""
    with ExitStack() as stack:
        lock: RunLock | None = None
        status: RunStatus | RankMetrics
        if group.first:
            lock = stack.enter_context(
                held_run(job, role="train, rank 0", watcher=watcher, resume=resume, fresh=fresh, directory=directory)
            )
            status = stack.enter_context(RunStatus(job, lock=lock))
        else:
            status = stack.enter_context(RankMetrics(job, rank=group.rank))
        return _run(
            job,
            group=group,
            stack=stack,
            lock=lock,
            status=status,
            resume=resume,
            fresh=fresh,
            warm_start=warm_start,
            watcher=watcher,
            directory=directory,
        )


def _run(
    job: Job,
    *,
    group: Group,
    stack: ExitStack,
    lock: RunLock | None,
    status: RunStatus | RankMetrics,
    resume: bool | Path,
    fresh: bool,
    warm_start: Path | None,
    watcher: Watcher,
    directory: Path,
) -> Result:
    started = time.perf_counter()
    exchange = RankExchange(group, doing="agreeing on how to begin")
    old, given, schema = _beginning(
        job, directory, exchange=exchange, resume=resume, fresh=fresh, warm_start=warm_start
    )
    check = (lambda: None) if lock is None else lock.check
    interrupts = Interrupts(limit=job.checkpoint.interrupt_timeout)
    learner = RankLearner(
        job=job, schema=schema, threads=_use_threads(job, group.own), group=group, interrupts=interrupts
    )
    exchange = RankExchange(group, doing="agreeing on what comes next")
    process = RankProcess(
        job=job,
        schema=schema,
        learner=learner,
        watcher=watcher,
        group=group,
        exchange=exchange,
        metrics_address=status.address if isinstance(status, RankMetrics) else "",
    )
    copies = stack.enter_context(CheckpointCopies(run=directory, transfer=job.checkpoint.transfer, exchange=exchange))
    checkpoints = RankCheckpoints(
        job=job,
        schema=schema,
        learner=learner,
        directory=directory,
        check=check,
        group=group,
        exchange=exchange,
        copies=copies,
    )
    run = Run(
        job=job,
        learner=learner,
        directory=directory,
        watcher=watcher,
        checkpoints=checkpoints,
        process=process,
        interrupts=interrupts,
    )
    status.follow(run)
    process.exchange_members(run.state)
    if far := copies.without_directory():
        named = ", ".join(f"rank {rank}" for rank in far)
        watcher.say(f"checkpoints travel over the network: {named} without {directory}")
    if old is not None:
        run.resume(old)
        learner.check_alike()
        watcher.say(f"resuming from {old.path}, step {old.step}, with {group.size} rank(s)")
    elif given is not None:
        run.warm_start(given)
        watcher.say(describe_start(warm_start, given, job.tables))
    resumed_at = None if old is None else old.step
    journal = (
        Journal(directory, tensorboard=job.train.tensorboard, resumed_at=resumed_at, check=check)
        if group.first
        else NoJournal()
    )
    result = train_and_test(run, journal, interrupts=interrupts, watcher=watcher, started=started)
    return result if lock is None else write_result_file(lock, result)


def _beginning(
    job: Job, directory: Path, *, exchange: RankExchange, resume: bool | Path, fresh: bool, warm_start: Path | None
) -> tuple[Checkpoint | None, Checkpoint | None, Schema]:
    """The checkpoint to resume from, that of a warm start, and the schema: rank 0 finds them and announces them."""
    _check_same_jobs(job, exchange)
    beginning: dict[str, Any] = {}
    if exchange.rank == 0:
        old, given = checkpoint_to_resume(directory, resume=resume, fresh=fresh), None
        if VARIABLE not in os.environ:  # else the launcher has left it, without what it has set for its ranks
            write_job(directory, job)
        if old is None:
            given = given_start(directory, warm_start)
            schema = schema_for(job, given)
        else:
            check_same_job(job, old.manifest["job"], where=old.path)
            schema = Schema.from_dict(old.manifest["schema"])
        named = {"checkpoint": old, "start": given}
        beginning = {name: None if one is None else [str(one.path), one.manifest] for name, one in named.items()}
        beginning["schema"] = schema.to_dict()
    beginning = exchange.announce(beginning)
    found, start = (
        None if beginning[name] is None else Checkpoint(Path(beginning[name][0]), beginning[name][1])
        for name in ("checkpoint", "start")
    )
    return found, start, Schema.from_dict(beginning["schema"])


def _check_same_jobs(job: Job, exchange: RankExchange) -> None:
    """Raise if ranks have different jobs: they would wait for each other for ever. Threads and addresses may differ."""
    shared = job.model_dump_json(exclude={"threads": True, "cluster": {"threads", "host", "trainers"}})
    digests = exchange.all_numbers([int.from_bytes(hashlib.sha256(shared.encode()).digest()[:7], "big")])[:, 0].tolist()
    others = [str(rank) for rank, digest in enumerate(digests) if digest != digests[0]]
    if others:
        raise PeerError(f"rank {', '.join(others)} has another job than rank 0; give all ranks the same file and --set")


def _use_threads(job: Job, own: Rank) -> int:
    """The threads of the job, or the machine's cores divided by the ranks on it."""
    cores = len(os.sched_getaffinity(0))
    threads = job.cluster.threads or max(cores // own.local_ranks, 1)
    torch.set_num_threads(threads)
    return threads
