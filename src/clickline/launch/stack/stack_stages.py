"""The stages of `clickline.up` before anything serves: demo data, the job, training, publishing.

Each goes on from what an earlier call has left: data that was written, a run that has finished with the same job and a
version that was published of it are kept. A run that was interrupted is resumed.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from clickline.config import Job
from clickline.config.loading.reader import read_draft
from clickline.config.run_location import RunLocation, is_elsewhere, location_of
from clickline.data.synthetic import write_criteo
from clickline.errors import CheckpointError, ClicklineError
from clickline.launch.local.training_run import train_job
from clickline.launch.stack.stack_events import (
    DemoDataKept,
    DemoDataProgress,
    DirectoryDiscarded,
    Emit,
    Note,
    RunKept,
    RunResumed,
    VersionKept,
)
from clickline.progress import Watcher
from clickline.publish.publisher import Settings
from clickline.publish.publisher import publish as publish_checkpoint
from clickline.train.checkpoints import checkpoint_files
from clickline.train.checkpoints.checkpoint_files import Checkpoint
from clickline.train.checkpoints.resume import has_same_result, keys_that_forbid_resuming
from clickline.train.preflight import check_draft, check_job
from clickline.train.run_storage.run_copy import RunCopy
from clickline.versions import donefile
from clickline.versions.manifest import Manifest, read_manifest
from clickline.versions.store import Store

DEMO = {"name": "demo", "model.hidden": "[64, 32]", "train.epochs": 2, "train.log_every": 50}
"""Enough for the demo's rows, and quick on a small machine."""
CLUSTER = {"cluster.pservers": 2, "cluster.trainers": 2}
"""Where a job does not say how many."""


def demo_data(state: Path, rows: int, *, emit: Emit) -> tuple[Path, float]:
    """The demo's job file and the best AUC that its data allows; made if it is not there yet."""
    data = state / "demo-data" / f"criteo-{rows}.tsv"
    truth = data.with_suffix(".json")
    # It gets its name last of the demo's files, so if it is there, all of them are complete.
    if truth.exists():
        emit(DemoDataKept(rows))
    else:
        data.parent.mkdir(parents=True, exist_ok=True)
        emit(DemoDataProgress(0, rows))
        write_criteo(
            data,
            rows=rows,
            seed=1,
            test_rows=rows // 5,
            force=True,
            progress=lambda done: emit(DemoDataProgress(done, rows)),
        )
    best: float = json.loads(truth.read_text(encoding="utf-8"))["test"]["best_auc"]
    return data.with_suffix(".job.yaml"), best


def read_stack_job(
    job: str | Path | Job, *, state: Path, settings: Sequence[str], overrides: Sequence[str], emit: Emit
) -> Job:
    """The job, checked, with its runs below the state directory, unless its output is a URL.

    A job file that does not say how it is trained is trained by parameter servers. A Job is taken as it is.
    """
    if isinstance(job, Job):
        made = job if is_elsewhere(job.output) else job.model_copy(update={"output": str(state)})
        for notice in check_job(made):
            emit(Note(str(notice)))
        return made
    # A run at a URL stays there; its versions and servers are below the state directory all the same.
    kept = is_elsewhere(read_draft(str(job), overrides=[*settings, *overrides]).loaded.job.output)
    known = [*([] if kept else [f"output={json.dumps(str(state))}"]), *settings]
    draft = read_draft(str(job), overrides=[*known, *overrides])
    chosen = any(draft.loaded.origins.get(key, "default") != "default" for key in ("strategy", *CLUSTER))
    # Servers sweep at the end of an epoch only, so a job that evicts more often is left with one process.
    if not chosen and not draft.loaded.job.tables.evict_every:
        cluster = [f"{key}={value}" for key, value in CLUSTER.items()]
        draft = read_draft(str(job), overrides=[*known, *cluster, *overrides])
    checked = check_draft(draft)
    for notice in checked.notices:
        emit(Note(str(notice)))
    return checked.job


@dataclass(frozen=True)
class FinishedRun:
    """A run that has gone to its end."""

    how: Literal["trained", "resumed", "kept"]
    directory: Path
    checkpoint: Path
    rows: int
    seconds: float
    test: dict[str, float] = field(default_factory=dict)
    url: str | None = None
    """Where it is kept, if its output is a URL: the paths are those of a local copy then."""


def train(job: Job, *, fresh: bool, watcher: Watcher, emit: Emit) -> FinishedRun:
    """Train, or go on training, or find that all is done."""
    location = location_of(job)
    directory = location.directory
    checkpoints = [] if fresh else _checkpoints(location)
    how: Literal["trained", "resumed"] = "trained"
    if checkpoints:
        newest = checkpoints[-1]
        finished = _finished(location, job, newest)
        if finished is not None:
            emit(RunKept(directory, finished.rows))
            return finished
        if differing := keys_that_forbid_resuming(job, newest.manifest["job"]):
            raise CheckpointError(
                f"{newest.path} is of another job: {', '.join(differing)} differ; --fresh throws that run and its "
                "versions away, --set name=… trains beside it"
            )
        emit(RunResumed(directory, newest.step))
        how = "resumed"
    result = train_job(job, resume=bool(checkpoints), fresh=fresh, watcher=watcher, checked=True)
    return FinishedRun(how, directory, result.checkpoint, result.rows, result.seconds, result.test, location.url)


def _checkpoints(location: RunLocation) -> list[Checkpoint]:
    """Those of the run so far, oldest first: at its URL, or else here, where some may not have been uploaded."""
    found = [] if location.url is None else RunCopy(location.url).checkpoints()
    return found or checkpoint_files.find(location.directory / "checkpoints")


def _finished(location: RunLocation, job: Job, newest: Checkpoint) -> FinishedRun | None:
    """The run's outcome, if it went to its end with this very job, or beyond."""
    directory = location.directory
    try:
        if location.url is not None:
            directory = RunCopy(location.url).fetch_files(only=("result.json",))
        result = json.loads((directory / "result.json").read_text(encoding="utf-8"))
        checkpoint = Path(result["checkpoint"])
        then = newest.manifest["job"]
        if location.url is not None and result["steps"] == newest.step:
            # The path is of the machine that trained it.
            checkpoint = RunCopy(f"{location.url}/checkpoints/{checkpoint.name}").fetch_checkpoint()
        # Of a run that was resumed and interrupted, the result is older than the newest checkpoint.
        done = result["steps"] == newest.step and checkpoint.is_dir() and job.train.epochs <= then["train"]["epochs"]
        finished = FinishedRun(
            "kept", directory, checkpoint, result["rows"], result["seconds"], result["test"], location.url
        )
    except (OSError, ValueError, KeyError, TypeError, ClicklineError):
        return None
    return finished if done and has_same_result(job, then) else None


def publish(run: FinishedRun, store: Store, *, watcher: Watcher, emit: Emit) -> Manifest:
    """The version to serve: the store's own choice if it has this model already, else a new one."""
    done = donefile.read(store)
    if run.how == "kept" and done.serving is not None:
        job = checkpoint_files.read(run.checkpoint).manifest["job"]
        manifests = [read_manifest(store, entry) for entry in done.entries.values()]
        if any(each.job == job and each.training.get("checkpoint") == run.checkpoint.name for each in manifests):
            # The version in service, which after a rollback may not be this run's: the rollback stays in force.
            emit(VersionKept(done.serving, store.url))
            return next(each for each in manifests if each.version == done.serving)
    return publish_checkpoint(run.checkpoint, store, Settings(), watcher=watcher)


def discard(state: Path, *, emit: Emit) -> None:
    """Remove what a fresh start begins without, beside the run's checkpoints: versions, and servers' copies of them."""
    for directory in (state / "versions", state / "suite"):
        if directory.is_dir():
            emit(DirectoryDiscarded(directory))
            shutil.rmtree(directory)
