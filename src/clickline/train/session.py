"""Training in this process, and evaluating a checkpoint.

`clickline.train_job` is the function of that name in launch/local/training_run.py, which starts the processes of any
strategy and calls `train_job` here for strategy `single`.
"""

from __future__ import annotations

import logging
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray

from clickline.config import Job
from clickline.data.dataset import Dataset
from clickline.data.schema import Schema
from clickline.errors import CheckpointError, DataError
from clickline.progress import LogOnly, Watcher
from clickline.train.checkpoints.checkpoint_figures import KINDS, CheckpointFigures, measured_on, record
from clickline.train.checkpoints.dense_tensors import load
from clickline.train.checkpoints.resume import check_same_job, checkpoint_to_resume
from clickline.train.checkpoints.warm_start import describe_start, given_start, schema_for
from clickline.train.evaluation.calibration import CalibrationBin
from clickline.train.evaluation.evaluation import EVALUATION_BATCH, predict_all
from clickline.train.evaluation.metric_set import MetricSet, flat
from clickline.train.interrupts import Interrupts, TrainingInterrupted, handlers_restored
from clickline.train.learner import Learner
from clickline.train.loop.run import Run
from clickline.train.loop.run_checkpoints import RunCheckpoints
from clickline.train.loop.single_process import SingleProcess
from clickline.train.loop.training_loop import TrainingLoop
from clickline.train.monitoring.journal import Journal
from clickline.train.monitoring.run_status import RunStatus
from clickline.train.run_files.run_directory import find_checkpoint, job_of, run_url, write_job
from clickline.train.run_files.run_lock import RunLock
from clickline.train.run_files.run_result import Result, write_result_file
from clickline.train.run_storage.held_run import held_run
from clickline.train.run_storage.run_copy import RunCopy

log = logging.getLogger("clickline.train")


def train_job(
    job: Job,
    *,
    resume: bool | Path = False,
    fresh: bool = False,
    warm_start: Path | None = None,
    watcher: Watcher | None = None,
) -> Result:
    """Train a job in `output/name`, which may be at a URL, and test it.

    `resume` continues from the newest checkpoint there (or from the one named); `fresh` throws away what is there; with
    neither, a directory that has checkpoints is refused. `warm_start` begins with another checkpoint's weights.
    """
    watcher = watcher or LogOnly()
    # Left in reverse order: the last status is written while the lock is held, and the handlers of the caller return
    # last. Until then an interrupted run ignores further SIGTERM and SIGHUP.
    with (
        handlers_restored(),
        held_run(job, role="train", watcher=watcher, resume=resume, fresh=fresh) as lock,
        RunStatus(job, lock=lock) as status,
    ):
        return _train(
            job,
            lock=lock,
            status=status,
            resume=resume,
            fresh=fresh,
            warm_start=warm_start,
            watcher=watcher,
        )


def _train(
    job: Job,
    *,
    lock: RunLock,
    status: RunStatus,
    resume: bool | Path,
    fresh: bool,
    warm_start: Path | None,
    watcher: Watcher,
) -> Result:
    """`train_job`, in a directory that is ours."""
    started, directory = time.perf_counter(), lock.directory
    old = checkpoint_to_resume(directory, resume=resume, fresh=fresh)
    write_job(directory, job)
    threads, given = _use_threads(job), None
    # Resumed, a run keeps the schema of its checkpoint: fitted again, dense features would mean something else.
    if old is not None:
        check_same_job(job, old.manifest["job"], where=old.path)
        schema = Schema.from_dict(old.manifest["schema"])
    else:
        given = given_start(directory, warm_start)
        schema = schema_for(job, given)
    learner = Learner(job=job, schema=schema, threads=threads)
    interrupts = Interrupts(limit=job.checkpoint.interrupt_timeout)
    run = Run(
        job=job,
        learner=learner,
        directory=directory,
        watcher=watcher,
        checkpoints=RunCheckpoints(job=job, schema=schema, learner=learner, directory=directory, check=lock.check),
        process=SingleProcess(job=job, schema=schema, learner=learner, interrupts=interrupts),
        interrupts=interrupts,
    )
    status.follow(run)
    if old is not None:
        run.resume(old)
        watcher.say(f"resuming from {old.path}, step {old.step}")
    elif given is not None:
        run.warm_start(given)
        watcher.say(describe_start(warm_start, given, job.tables))
    resumed_at = None if old is None else old.step
    journal = Journal(directory, tensorboard=job.train.tensorboard, resumed_at=resumed_at, check=lock.check)
    result = train_and_test(run, journal, interrupts=interrupts, watcher=watcher, started=started)
    return write_result_file(lock, result)


def train_and_test(run: Run, journal: Journal, *, interrupts: Interrupts, watcher: Watcher, started: float) -> Result:
    """Take a run from where it is to its end. `started`: by time.perf_counter. Closes the journal in any case."""
    try:
        with interrupts:
            TrainingLoop(run, journal).train()
            test = run.test(journal) if run.job.data.test else {}
    # It is a KeyboardInterrupt as well, but says already what was kept.
    except TrainingInterrupted:
        raise
    except KeyboardInterrupt as error:
        raise run.interruption(why=str(error)) from error
    finally:
        watcher.end()
        journal.close()
    chosen = run.chosen
    return Result(
        directory=run.directory,
        checkpoint=chosen.path,
        steps=run.learner.step,
        rows=run.state.position.rows,
        seconds=time.perf_counter() - started,
        valid=chosen.manifest["valid"],
        test=test,
    )


@dataclass(frozen=True)
class Evaluation:
    """Predictions of a checkpoint on some data, and how good they are."""

    job: Job
    schema: Schema
    figures: dict[str, float]
    columns: dict[str, NDArray[Any]]
    """Logits and labels [rows, labels], and weights and groups if the job has them, in the order of the data."""
    bins: list[CalibrationBin]
    """Calibration of the first label."""


def evaluate_checkpoint(
    *, checkpoint: str | Path, paths: list[str], watcher: Watcher | None = None
) -> dict[str, float]:
    """Figures of a checkpoint on some data; the checkpoint knows its job."""
    return evaluation_of(checkpoint=checkpoint, paths=paths, watcher=watcher).figures


def evaluation_of(*, checkpoint: str | Path, paths: list[str], watcher: Watcher | None = None) -> Evaluation:
    """Predict some data with a checkpoint, and measure that.

    Figures on the job's test or validation data are kept beside the checkpoint, for publishing it.
    """
    watcher = watcher or LogOnly()
    found = find_checkpoint(checkpoint)
    job = job_of(found)
    schema = Schema.from_dict(found.manifest["schema"])
    learner = Learner(job=job, schema=schema, threads=_use_threads(job))
    learner.restore(load(found, tables=learner.sparse.tables), step=found.step, weights_only=True)
    dataset = Dataset(
        data=job.data, schema=schema, paths=paths, batch_size=EVALUATION_BATCH, seed=job.seed, shuffle=False
    )
    files = measured_on(job.data, paths)
    metrics = MetricSet.of(job.metrics, loss=job.train.loss)
    watcher.begin("evaluating")
    try:
        predictions = predict_all(
            learner, dataset, progress=lambda rows: watcher.advance(share=None, facts={"rows": f"{rows:,}"})
        )
    finally:
        watcher.end()
    columns = predictions.columns()
    figures = flat(metrics.measure_all(schema.labels, columns))
    for kind in KINDS:
        with suppress(DataError):  # the job's own files may not be here any more
            if files == measured_on(job.data, getattr(job.data, kind)):
                record(found, kind, CheckpointFigures(figures, files))
    if (url := run_url(checkpoint)) is not None:
        _upload_figures(url, found.path)
    bins = metrics.bins(columns["logits"][:, 0], columns["labels"][:, 0], weights=columns.get("weights"))
    return Evaluation(job, schema, figures, columns, bins)


def _upload_figures(url: str, checkpoint: Path) -> None:
    try:
        RunCopy(url).upload_figures(checkpoint)
    except CheckpointError as error:  # they were shown already
        log.warning("figures of %s cannot be kept beside it: %s", url, error)


def _use_threads(job: Job) -> int:
    threads = job.threads or len(os.sched_getaffinity(0))
    torch.set_num_threads(threads)
    return threads
