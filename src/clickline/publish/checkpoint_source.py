"""A checkpoint as the source of a version: its model, opened, and the facts of its training.

A job may be running meanwhile and drop checkpoints as it writes new ones; then the choice is made again.
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
from clickline.train.checkpoints.checkpoint_directories import MANIFEST
from clickline.train.checkpoints.checkpoint_figures import KINDS, recorded
from clickline.train.checkpoints.checkpoint_files import Checkpoint
from clickline.train.checkpoints.dense_tensors import load
from clickline.train.learner import Learner
from clickline.train.run_files.run_directory import find_checkpoint, job_of

_TRIES = 5


@dataclass(frozen=True)
class CheckpointSource:
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
        """For the manifest: what was trained, how far, and what was measured on this checkpoint, if anything."""
        manifest = self.checkpoint.manifest
        job, measured = manifest["job"], recorded(self.checkpoint)
        judge = next((kind for kind in KINDS if kind in measured and "auc" in measured[kind].figures), None)
        errors = next((kind for kind in KINDS if kind in measured and "rmse" in measured[kind].figures), None)
        squared = {"rmse": None if errors is None else measured[errors].figures["rmse"], "rmse_on": errors}
        return {
            "run": self.job.name,
            "checkpoint": self.checkpoint.path.name,
            "model": self.job.model.name,
            "step": self.checkpoint.step,
            "epoch": self.checkpoint.epoch,
            "rows": manifest["standing"]["rows"],
            "auc": None if judge is None else measured[judge].figures["auc"],
            "auc_on": judge,
            **(squared if self.schema.loss == "squared" else {}),
            "figures": {kind: one.figures for kind, one in measured.items()},
            "measured_on": {kind: one.files for kind, one in measured.items()},
            "job_digest": hashlib.sha256(json.dumps(job, sort_keys=True).encode()).hexdigest(),
        }


def open_checkpoint_source(source: str | Path, *, threads: int | None = None) -> CheckpointSource:
    """Load the checkpoint that a path names. Every file is checked against the checkpoint's manifest."""
    for attempt in range(1, _TRIES + 1):
        checkpoint = find_checkpoint(source)
        try:
            return _opened(checkpoint, threads=threads)
        except (CheckpointError, FileNotFoundError):
            # A running job keeps only the last checkpoints: this one may have been removed meanwhile.
            if (checkpoint.path / MANIFEST).is_file() or attempt == _TRIES:
                raise
    raise AssertionError("unreachable")


def _opened(checkpoint: Checkpoint, *, threads: int | None) -> CheckpointSource:
    try:
        job = job_of(checkpoint)
        schema = Schema.from_dict(checkpoint.manifest["schema"])
    except (KeyError, ValueError) as error:
        raise CheckpointError(f"{checkpoint.path}: its manifest does not describe a job: {error}") from error
    wanted = threads or job.threads or len(os.sched_getaffinity(0))
    torch.set_num_threads(wanted)
    learner = Learner(job=job, schema=schema, threads=wanted)
    tensors = load(checkpoint, tables=learner.sparse.tables)
    learner.restore(tensors, step=checkpoint.step, weights_only=True)
    watermark = int(tensors["tick"]) if schema.time and "tick" in tensors else None
    return CheckpointSource(learner, checkpoint, watermark)
