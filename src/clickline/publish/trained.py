"""What is published: a checkpoint with its model opened, and the facts of its training.

A job may be running meanwhile and drop checkpoints as it writes new ones; then the newest of that moment is taken.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from clickline.config import Job
from clickline.data.schema import Schema
from clickline.errors import CheckpointError
from clickline.train import checkpoints
from clickline.train.checkpoint_directories import MANIFEST
from clickline.train.checkpoints import Checkpoint
from clickline.train.journal import METRICS
from clickline.train.learner import Learner

_TRIES = 5


@dataclass(frozen=True)
class Trained:
    """A trained model, ready to be published."""

    learner: Learner
    checkpoint: Checkpoint
    watermark: int | None
    """Event time of the newest row that was learned from; None if the data has no times."""

    @property
    def job(self) -> Job:
        return self.learner.job

    @property
    def schema(self) -> Schema:
        return self.learner.schema

    def facts(self) -> dict[str, Any]:
        """For the manifest: what was trained, how far, and how good it is as far as the run has measured it."""
        manifest = self.checkpoint.manifest
        job = manifest["job"]
        figures = _figures(self.checkpoint)
        auc = next(
            (figures[kind]["auc"] for kind in ("test", "valid", "train") if "auc" in figures.get(kind, {})), None
        )
        return {
            "run": self.job.name,
            "checkpoint": self.checkpoint.path.name,
            "model": self.job.model.name,
            "step": self.checkpoint.step,
            "epoch": manifest["standing"]["epoch"],
            "rows": manifest["standing"]["rows"],
            "auc": auc,
            "figures": figures,
            "job_digest": hashlib.sha256(json.dumps(job, sort_keys=True).encode()).hexdigest(),
        }


def newest(source: Path) -> Checkpoint:
    """The checkpoint that a path means: itself, or the newest complete one of a run."""
    if (source / MANIFEST).is_file():
        return checkpoints.read(source)
    found = _found(source / "checkpoints")
    if not found:
        raise CheckpointError(
            f"{source}: no complete checkpoint there; expected a run's directory such as runs/NAME, which has "
            "checkpoints/step-…, or one of those"
        )
    return found[-1]


def _found(directory: Path) -> list[Checkpoint]:
    """All complete checkpoints; a running job may remove one while we look at it, then we look again."""
    for _ in range(_TRIES - 1):
        try:
            return checkpoints.find(directory)
        except CheckpointError:
            continue
    return checkpoints.find(directory)


def open_trained(source: Path, *, threads: int | None = None) -> Trained:
    """Load what a path means. Every file is checked against the checkpoint's manifest."""
    for attempt in range(1, _TRIES + 1):
        checkpoint = newest(source)
        try:
            return _opened(checkpoint, threads=threads)
        except (CheckpointError, FileNotFoundError):
            # A running job keeps only so many: the one that we had begun with may be gone by now.
            if (checkpoint.path / MANIFEST).is_file() or attempt == _TRIES:
                raise
    raise AssertionError("unreachable")


def _opened(checkpoint: Checkpoint, *, threads: int | None) -> Trained:
    try:
        job = Job.model_validate(checkpoint.manifest["job"])
        schema = Schema.from_dict(checkpoint.manifest["schema"])
    except (KeyError, ValueError) as error:
        raise CheckpointError(f"{checkpoint.path}: its manifest does not describe a job: {error}") from error
    wanted = threads or job.threads or len(os.sched_getaffinity(0))
    torch.set_num_threads(wanted)
    learner = Learner(job=job, schema=schema, threads=wanted)
    tensors = checkpoints.load(checkpoint, tables=learner.sparse.tables)
    learner.restore(tensors, step=checkpoint.step, weights_only=True)
    watermark = int(tensors["tick"]) if schema.time and "tick" in tensors else None
    return Trained(learner, checkpoint, watermark)


def _figures(checkpoint: Checkpoint) -> dict[str, dict[str, Any]]:
    """What the run's metrics say of this step: test and validation of this very step, the last line of training."""
    found: dict[str, dict[str, Any]] = {}
    file = checkpoint.path.parent.parent / METRICS
    if not file.is_file():
        return {"valid": checkpoint.manifest["valid"]} if checkpoint.manifest.get("valid") else {}
    with file.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            try:
                figures = json.loads(line)
                kind, step = figures.pop("kind"), figures["step"]
            except (ValueError, KeyError, AttributeError):  # the line that a run at work has not finished
                continue
            if step == checkpoint.step or (kind == "train" and step <= checkpoint.step):
                found[kind] = figures
    return found
