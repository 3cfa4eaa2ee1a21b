"""The stages of `clickline up`, each of which goes on from what an earlier call has left: data, training, a version.

What is there already is not made again: data that was written, a run that has finished with the same job, a version
that was published of it. A run that was interrupted is resumed.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from clickline.config import Job
    from clickline.progress import Watcher
    from clickline.train.checkpoints.checkpoint_files import Checkpoint
    from clickline.train.preflight import CheckedJob
    from clickline.versions.manifest import Manifest
    from clickline.versions.store import Store

DEMO = {"name": "demo", "model.hidden": "[64, 32]", "train.epochs": 2, "train.log_every": 50}
"""Enough for the demo's rows, and quick on a small machine."""
CLUSTER = {"cluster.pservers": 2, "cluster.trainers": 2}
"""Where a job does not say how many."""
_CHANGES_NOTHING = ("name", "output", "threads", "checkpoint", "cluster")
_NOR_IN_TRAIN = ("epochs", "log_every", "tensorboard")


def demo_data(state: Path, rows: int, watcher: Watcher) -> tuple[Path, float]:
    """The demo's job file and the best AUC that its data allows; made if it is not there yet."""
    from clickline.data.synthetic import write_criteo

    data = state / "demo-data" / f"criteo-{rows}.tsv"
    truth = data.with_suffix(".json")
    if truth.exists():
        watcher.say(f"demo data: {rows:,} rows are there from before")
    else:
        watcher.begin(f"making {rows:,} rows of demo data")
        data.parent.mkdir(parents=True, exist_ok=True)
        try:
            write_criteo(
                data,
                rows=rows,
                seed=1,
                test_rows=rows // 5,
                force=True,
                progress=lambda done: watcher.advance(share=done / rows, facts={"rows": f"{done:,}"}),
            )
        finally:
            watcher.end()
    best: float = json.loads(truth.read_text(encoding="utf-8"))["test"]["best_auc"]
    return data.with_suffix(".job.yaml"), best


def read_chain_job(path: str, *, state: Path, settings: list[str], overrides: list[str]) -> CheckedJob:
    """The job, with runs below the state directory, and by parameter servers unless it says how it is to be trained."""
    from clickline.config.loading.reader import read_draft
    from clickline.train.preflight import check_draft

    known = [f"output={json.dumps(str(state))}", *settings]
    draft = read_draft(path, overrides=[*known, *overrides])
    said = any(draft.loaded.origins.get(key, "default") != "default" for key in ("strategy", *CLUSTER))
    if not said and not draft.loaded.job.tables.evict_every:  # servers sweep at the end of an epoch only
        cluster = [f"{key}={value}" for key, value in CLUSTER.items()]
        draft = read_draft(path, overrides=[*known, *cluster, *overrides])
    return check_draft(draft)


@dataclass(frozen=True)
class Training:
    """A run that is finished."""

    how: Literal["trained", "resumed", "kept"]
    directory: Path
    checkpoint: Path
    rows: int
    seconds: float
    test: dict[str, float] = field(default_factory=dict)


def train(job: Job, *, fresh: bool, watcher: Watcher) -> Training:
    """Train, or go on training, or find that all is done."""
    from clickline.errors import CheckpointError
    from clickline.launch.training_run import train_job
    from clickline.train.checkpoints import checkpoint_files
    from clickline.train.checkpoints.resume import check_same_job

    directory = Path(job.output) / job.name
    found = [] if fresh else checkpoint_files.find(directory / "checkpoints")
    how: Literal["trained", "resumed"] = "trained"
    if found:
        done = _finished(directory, job, found[-1])
        if done is not None:
            watcher.say(f"trained before, {done.rows:,} rows: {directory} is taken as it is (--fresh trains anew)")
            return done
        try:
            check_same_job(job, found[-1].manifest["job"], where=found[-1].path)
        except CheckpointError as error:
            why = str(error).partition("; ")[0]
            raise CheckpointError(
                f"{why}; --fresh throws that run and its versions away, --set name=… trains beside it"
            ) from None
        watcher.say(f"going on with {directory} from step {found[-1].step:,} (--fresh starts over)")
        how = "resumed"
    result = train_job(job, resume=bool(found), fresh=fresh, watcher=watcher, checked=True)
    return Training(how, directory, result.checkpoint, result.rows, result.seconds, result.test)


def _finished(directory: Path, job: Job, newest: Checkpoint) -> Training | None:
    """What the run came to, if it went to its end with this very job, or beyond."""
    try:
        found = json.loads((directory / "result.json").read_text(encoding="utf-8"))
        checkpoint = Path(found["checkpoint"])
        then = newest.manifest["job"]
        done = found["steps"] == newest.step and checkpoint.is_dir() and job.train.epochs <= then["train"]["epochs"]
        training = Training("kept", directory, checkpoint, found["rows"], found["seconds"], found["test"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return training if done and _essence(then) == _essence(job.model_dump(mode="json")) else None


def _essence(job: dict[str, Any]) -> dict[str, Any]:
    """What makes a run another one."""
    train = {key: value for key, value in job["train"].items() if key not in _NOR_IN_TRAIN}
    return {**{key: value for key, value in job.items() if key not in _CHANGES_NOTHING}, "train": train}


def publish(training: Training, store: Store, watcher: Watcher) -> Manifest:
    """The version to serve: the store's own choice if it has this model already, else a new one."""
    from clickline.publish.publisher import Settings
    from clickline.publish.publisher import publish as make
    from clickline.train.checkpoints import checkpoint_files
    from clickline.versions import donefile
    from clickline.versions.manifest import read_manifest

    done = donefile.read(store)
    if training.how == "kept" and done.serving is not None:
        job = checkpoint_files.read(training.checkpoint).manifest["job"]
        manifests = [read_manifest(store, entry) for entry in done.entries.values()]
        if any(one.job == job and one.training.get("checkpoint") == training.checkpoint.name for one in manifests):
            watcher.say(f"published before: version {done.serving} of {store.url} is the one to serve")
            return next(one for one in manifests if one.version == done.serving)
    return make(training.checkpoint, store, Settings(), watcher=watcher)


def throw_away(state: Path, watcher: Watcher) -> None:
    """What --fresh starts without, beside the run's checkpoints: versions, and what servers hold of them."""
    for directory in (state / "versions", state / "suite"):
        if directory.is_dir():
            watcher.say(f"throwing away {directory}")
            shutil.rmtree(directory)
