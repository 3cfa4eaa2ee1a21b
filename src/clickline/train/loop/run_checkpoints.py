"""The checkpoints of a run: written at the run's state, loaded, and removed when newer ones replace them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from clickline.config import Job
from clickline.data.schema import Schema
from clickline.train.checkpoints import checkpoint_files
from clickline.train.checkpoints.checkpoint_figures import CheckpointFigures, record
from clickline.train.checkpoints.checkpoint_files import Checkpoint
from clickline.train.checkpoints.dense_tensors import dense_file, load
from clickline.train.learner import Learner
from clickline.train.loop.training_state import TrainingState
from clickline.train.run_files.run_directory import CHECKPOINTS
from clickline.train.sparse_tables import BUCKETS


@dataclass(frozen=True)
class SavedCheckpoint:
    """The newest checkpoint of a run, and how many this process has written."""

    path: Path | None = None
    seconds: float = 0.0
    """How long it took to write; training pauses meanwhile."""
    count: int = 0


class RunCheckpoints:
    """Checkpoints of one process, which holds all rows. Ranks override how one is written and loaded."""

    buckets = (0, BUCKETS)
    """Of the tables' rows, those of this process."""

    def __init__(
        self, *, job: Job, schema: Schema, learner: Learner, directory: Path, check: Callable[[], None]
    ) -> None:
        """`check` raises if this process may not write to the run's directory any more."""
        self.job, self.schema, self.learner = job, schema, learner
        self.directory = directory / CHECKPOINTS
        self.check = check
        self.newest = SavedCheckpoint()
        self.saved_step = -1
        """The step of the newest checkpoint; -1 if there is none."""

    def save(self, state: TrainingState) -> None:
        """Write a checkpoint of this instant and remove those no longer kept."""
        began = time.monotonic()
        checkpoint = self._write(state)
        # Only when it is visible: a run that is interrupted takes this step as saved and writes no other checkpoint.
        self.saved_step = self.learner.step
        self.newest = SavedCheckpoint(checkpoint.path, time.monotonic() - began, self.newest.count + 1)

    def resumed(self, checkpoint: Checkpoint) -> None:
        """Take the checkpoint that the run resumes from as the newest one."""
        self.saved_step, self.newest = checkpoint.step, SavedCheckpoint(checkpoint.path)

    def load(self, checkpoint: Checkpoint) -> dict[str, torch.Tensor]:
        """Load the rows of this process into the learner's tables; return the dense tensors."""
        return load(checkpoint, tables=self.learner.sparse.tables)

    def read(self, step: int) -> Checkpoint:
        """The checkpoint of a step."""
        return checkpoint_files.read(self.directory / f"step-{step:010d}")

    def start_directory(self, given: str | None) -> str | None:
        """Where this process finds the weights that the run began with; `given` is what the run's state says."""
        return given

    def record(self, checkpoint: Checkpoint, kind: str, measured: CheckpointFigures) -> None:
        """Keep figures beside a checkpoint that was written before they were measured."""
        record(checkpoint, kind, measured, check=self.check)

    def check_resumable(self, checkpoint: Checkpoint) -> None:
        """Raise if a run cannot resume at the checkpoint's position. One process can resume at any."""

    def manifest(self, state: TrainingState) -> dict[str, object]:
        """The manifest of a checkpoint of this instant."""
        valid = state.validation
        if valid is not None and valid[0] != self.learner.step:
            valid = None  # figures of an earlier step are not this checkpoint's
        return {
            "step": self.learner.step,
            "standing": state.position.to_dict(),
            "progress": None if state.pieces is None else state.pieces.to_dict(),
            "job": self.job.model_dump(mode="json"),
            "schema": self.schema.to_dict(),
            "valid": {} if valid is None else valid[1].figures,
            "valid_files": [] if valid is None else valid[1].files,
        }

    def prune(self, state: TrainingState) -> None:
        """Remove the checkpoints that `checkpoint.keep` does not keep; the best one always stays."""
        checkpoint_files.prune(
            self.directory,
            newest=self.learner.step,
            keep=self.job.checkpoint.keep,
            also=state.position.best_step,
            check=self.check,
        )

    def _write(self, state: TrainingState) -> Checkpoint:
        checkpoint = checkpoint_files.write(
            self.directory,
            facts=self.manifest(state),
            dense=dense_file({**self.learner.tensors(), **state.interval.tensors()}),
            tables=self.learner.sparse.tables,
            check=self.check,
        )
        # Only when the new one is visible: until then a killed run has the old ones alone to resume from.
        self.prune(state)
        return checkpoint
