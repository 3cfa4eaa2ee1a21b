"""Training from Python: `clickline.train_job(job)`, the same thing the command line does."""

from __future__ import annotations

import os
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from clickline.config import Job
from clickline.data.fitting import fit
from clickline.data.pipeline import Dataset
from clickline.data.schema import Schema
from clickline.durable import replace_json
from clickline.errors import CheckpointError, JobError
from clickline.train import checkpoints
from clickline.train.evaluating import evaluate, flat
from clickline.train.journal import Journal
from clickline.train.learner import Learner
from clickline.train.loop import EVALUATION_BATCH, Run
from clickline.train.resuming import check_same_job, checkpoint_to_resume
from clickline.train.run_lock import RunLock
from clickline.train.watching import Silent, Watcher


@dataclass(frozen=True)
class Result:
    """What a run came to."""

    directory: Path
    checkpoint: Path
    """The best one by validation, or the last."""
    steps: int
    rows: int
    seconds: float
    valid: dict[str, float] = field(default_factory=dict)
    test: dict[str, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return {name: str(v) if isinstance(v, Path) else v for name, v in asdict(self).items()}


def train_job(
    job: Job,
    *,
    resume: bool | Path = False,
    fresh: bool = False,
    warm_start: Path | None = None,
    watcher: Watcher | None = None,
) -> Result:
    """Train a job in `output/name` and test it.

    `resume` goes on from the newest checkpoint there (or from the one named); `fresh` throws away what is there; with
    neither, a directory that has checkpoints is refused. `warm_start` begins with another checkpoint's weights.
    """
    if not job.data.train:
        raise JobError("data.train is empty; name the files to train on, e.g. data: {train: logs/*.tsv.gz}")
    directory = Path(job.output) / job.name
    with RunLock(directory, role="train") as lock:
        return _train(job, lock=lock, resume=resume, fresh=fresh, warm_start=warm_start, watcher=watcher or Silent())


def _train(
    job: Job, *, lock: RunLock, resume: bool | Path, fresh: bool, warm_start: Path | None, watcher: Watcher
) -> Result:
    """`train_job`, in a directory that is ours."""
    started, directory = time.perf_counter(), lock.directory
    old = checkpoint_to_resume(directory, resume=resume, fresh=fresh)
    threads = _use_threads(job)
    if old is not None:
        check_same_job(job, old.manifest["job"], where=old.path)
        schema = Schema.from_dict(old.manifest["schema"])
    else:
        schema = fit(job.data, Schema.of(job.data, job.features), job.data.train, rows=job.features.fit_rows)
    learner = Learner(job=job, schema=schema, threads=threads)
    run = Run(job=job, schema=schema, learner=learner, directory=directory, watcher=watcher, check=lock.check)
    if old is not None:
        run.resume(old)
        watcher.say(f"resuming from {old.path}, step {old.step}")
    elif warm_start is not None:
        tensors = checkpoints.load(checkpoints.read(warm_start), tables=learner.sparse.tables)
        learner.restore(tensors, step=0, weights_only=True)
    resumed_at = None if old is None else old.step
    journal = Journal(directory, tensorboard=job.train.tensorboard, resumed_at=resumed_at, check=lock.check)
    try:
        run.train(journal)
        test = run.test(journal) if job.data.test else {}
    finally:
        watcher.end()
        journal.close()
    step = run.standing.best_step or learner.step
    result = Result(
        directory=directory,
        checkpoint=run.checkpoint_directory / f"step-{step:010d}",
        steps=learner.step,
        rows=run.standing.rows,
        seconds=time.perf_counter() - started,
        valid=run.valid,
        test=test,
    )
    write_result_file(lock, result.to_dict())
    return result


def write_result_file(lock: RunLock, facts: dict[str, Any]) -> None:
    """Leave what a run came to in its directory."""
    lock.check()
    try:
        replace_json(lock.directory / "result.json", facts)
    except OSError as error:
        raise CheckpointError(f"{lock.directory / 'result.json'}: cannot be written: {error}") from error


def evaluate_checkpoint(*, checkpoint: Path, paths: list[str], watcher: Watcher | None = None) -> dict[str, float]:
    """Figures of a checkpoint on some data; the checkpoint knows its job."""
    watcher = watcher or Silent()
    found = checkpoints.read(checkpoint)
    job = Job.model_validate(found.manifest["job"])
    schema = Schema.from_dict(found.manifest["schema"])
    learner = Learner(job=job, schema=schema, threads=_use_threads(job))
    learner.restore(checkpoints.load(found, tables=learner.sparse.tables), step=found.step, weights_only=True)
    dataset = Dataset(
        data=job.data, schema=schema, paths=paths, batch_size=EVALUATION_BATCH, seed=job.seed, shuffle=False
    )
    watcher.begin("evaluating")
    try:
        return flat(
            evaluate(learner, dataset, progress=lambda rows: watcher.advance(share=None, facts={"rows": f"{rows:,}"}))
        )
    finally:
        watcher.end()


def _use_threads(job: Job) -> int:
    threads = job.threads or len(os.sched_getaffinity(0))
    torch.set_num_threads(threads)
    return threads
