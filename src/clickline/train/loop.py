"""A run: epochs over the training data, evaluation after each, checkpoints on the way, the best one kept.

Everything that decides what happens next (step, position in the data, best figure so far, unfinished interval) is
in every checkpoint, so a run that is killed and resumed ends with the same bits as one that was not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from clickline.config import Job
from clickline.data.batch import Batch
from clickline.data.pipeline import Dataset
from clickline.data.positions import Position
from clickline.data.schema import Schema
from clickline.errors import CheckpointError
from clickline.train import checkpoints
from clickline.train.evaluating import evaluate, flat
from clickline.train.journal import Interval, Journal
from clickline.train.learner import Learned, Learner
from clickline.train.stopping import better, enough, stopped_early
from clickline.train.watching import Watcher

EVALUATION_BATCH = 4096


@dataclass(frozen=True)
class Standing:
    """Where a run stands between two steps."""

    epoch: int = 0
    position: Position | None = None
    rows: int = 0
    epoch_rows: int | None = None
    """Rows of a whole epoch, once one has been seen; what the progress bar goes by from then on."""
    best_auc: float | None = None
    best_step: int | None = None
    stale_epochs: int = 0

    def to_dict(self) -> dict[str, Any]:
        return {**self.__dict__, "position": None if self.position is None else self.position.to_dict()}

    @classmethod
    def from_dict(cls, facts: dict[str, Any]) -> Standing:
        position = facts["position"]
        return cls(**{**facts, "position": None if position is None else Position.from_dict(position)})


class Run:
    """One run of one job in one directory.

    A run of several ranks overrides where its batches come from, how it measures, and how it saves and loads.
    """

    def __init__(
        self,
        *,
        job: Job,
        schema: Schema,
        learner: Learner,
        directory: Path,
        watcher: Watcher,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """`check` raises if this process may not write to the directory any more."""
        self.job = job
        self.check = check
        self.schema = schema
        self.learner = learner
        self.directory = directory
        self.checkpoint_directory = directory / "checkpoints"
        self.watcher = watcher
        self.standing = Standing()
        self.interval = Interval()
        self.valid: dict[str, float] = {}
        self._saved_at = -1
        self._shown = 0.0

    def resume(self, checkpoint: checkpoints.Checkpoint) -> None:
        """Stand where the checkpoint stood."""
        self._check_position(checkpoint)
        tensors = self._load(checkpoint)
        self.learner.restore(tensors, step=checkpoint.step)
        self.standing = Standing.from_dict(checkpoint.manifest["standing"])
        self.interval = Interval.restored(tensors)
        self._saved_at = checkpoint.step

    def train(self, journal: Journal) -> None:
        """Epochs until the last, or until early stopping or max_steps."""
        settings = self.job.train
        while (
            self.standing.epoch < settings.epochs
            and not stopped_early(self.job.train, stale_epochs=self.standing.stale_epochs)
            and not self._enough()
        ):
            self._epoch(journal)
        if self._saved_at != self.learner.step:
            self.save()

    def test(self, journal: Journal) -> dict[str, float]:
        """Figures on the test data, of the best checkpoint if validation chose one."""
        best = self.standing.best_step
        if best is not None and best != self.learner.step:
            wanted = self.checkpoint_directory / f"step-{best:010d}"
            self.learner.sparse.empty()
            self.learner.restore(self._load(checkpoints.read(wanted)), step=best, weights_only=True)
            self.watcher.say(f"testing the best checkpoint, {wanted.name}")
        figures = self._evaluate("test", self.job.data.test)
        journal.line(kind="test", step=self.learner.step, epoch=self.standing.epoch, figures=figures)
        return figures

    def save(self) -> checkpoints.Checkpoint:
        """Write a checkpoint of this instant and drop those no longer kept."""
        checkpoint = checkpoints.write(
            self.checkpoint_directory,
            facts=self._facts(),
            tensors={**self.learner.tensors(), **self.interval.tensors()},
            tables=self.learner.sparse.tables,
            check=self.check,
        )
        self._saved_at = self.learner.step
        self._prune()
        return checkpoint

    def _prune(self) -> None:
        checkpoints.prune(
            self.checkpoint_directory,
            newest=self.learner.step,
            keep=self.job.checkpoint.keep,
            also=self.standing.best_step,
            check=self.check,
        )

    def _facts(self) -> dict[str, Any]:
        """What a manifest says of this instant."""
        return {
            "step": self.learner.step,
            "standing": self.standing.to_dict(),
            "job": self.job.model_dump(mode="json"),
            "schema": self.schema.to_dict(),
            "valid": self.valid,
        }

    def _load(self, checkpoint: checkpoints.Checkpoint) -> dict[str, torch.Tensor]:
        return checkpoints.load(checkpoint, tables=self.learner.sparse.tables)

    def _check_position(self, checkpoint: checkpoints.Checkpoint) -> None:
        """One process goes on from a position in the whole data; several, from the pieces they have read."""
        if checkpoint.manifest.get("progress") is not None:
            raise CheckpointError(
                f"{checkpoint.path} stands in the middle of an epoch of several ranks, which one process cannot go on "
                "with; resume with --set strategy=collective (one rank will do), or from between epochs"
            )

    @property
    def _midway(self) -> bool:
        """Whether part of the current epoch is done."""
        return self.standing.position is not None

    def _epoch(self, journal: Journal) -> None:
        standing = self.standing
        whole = not self._midway
        if standing.epoch > 0 and whole:
            self.learner.sparse.restart()
        self.watcher.begin(f"epoch {standing.epoch + 1}/{self.job.train.epochs}")
        before = standing.rows
        self._pass(journal)
        self.watcher.end()
        if self._enough():
            return
        self._sweep(end_of_epoch=True)
        rows = self.standing.rows - before if whole else standing.epoch_rows
        self.standing = replace(self.standing, epoch=standing.epoch + 1, position=None, epoch_rows=rows)
        every = self.job.checkpoint.every_epochs
        keep_this = every > 0 and self.standing.epoch % every == 0
        if self.job.data.valid:
            keep_this = self._validate(journal) or keep_this
        if keep_this:
            self.save()

    def _pass(self, journal: Journal) -> None:
        """What is left of the epoch's data."""
        dataset = Dataset(
            data=self.job.data,
            schema=self.schema,
            paths=self.job.data.train,
            batch_size=self.job.train.batch_size,
            seed=self.job.seed,
            shuffle=True,
        )
        standing = self.standing
        with closing(dataset.batches(epoch=standing.epoch, start=standing.position)) as batches:
            self._steps(batches, dataset, journal)

    def _steps(self, batches: Iterator[tuple[Batch, Position]], dataset: Dataset, journal: Journal) -> None:
        for batch, position, learned in self.learner.learn(batches, barrier=self._checkpoint_due):
            self.standing = replace(self.standing, position=position, rows=self.standing.rows + len(batch))
            self.interval.add(batch, learned)
            self._after_step(learned, journal, share=partial(self._share, dataset, position))
            if self._enough():
                break

    def _after_step(self, learned: Learned, journal: Journal, *, share: Callable[[], float | None]) -> None:
        """Log, show, sweep and save, each when it is due."""
        step = self.learner.step
        if step % self.job.train.log_every == 0:
            self._log(journal)
        now = time.perf_counter()
        if now - self._shown > 0.1:
            facts = {"rows/s": f"{self.interval.rate:,.0f}", "loss": f"{learned.loss:.4f}"}
            self.watcher.advance(share=share(), facts=facts)
            self._shown = now
        self._sweep(end_of_epoch=False)
        if self._checkpoint_due(step):
            self.save()

    def _log(self, journal: Journal) -> None:
        """A line of metrics about the interval that ends here."""
        self._write_line(self.interval.figures(), journal)
        self.interval = Interval()

    def _write_line(self, figures: dict[str, float], journal: Journal) -> None:
        step, epoch = self.learner.step, self.standing.epoch
        journal.line(kind="train", step=step, epoch=epoch, figures=figures)
        self.watcher.say(describe(step=step, epoch=epoch, figures=figures))

    def _share(self, dataset: Dataset, position: Position) -> float | None:
        """How much of the epoch is done: by rows if its length is known, else by bytes."""
        rows = self.standing.epoch_rows
        if rows:
            return min((self.standing.rows - self.standing.epoch * rows) / rows, 1.0)
        return dataset.share(position)

    def _validate(self, journal: Journal) -> bool:
        """Evaluate; return whether this is the best so far."""
        self.valid = self._evaluate("valid", self.job.data.valid)
        journal.line(kind="valid", step=self.learner.step, epoch=self.standing.epoch - 1, figures=self.valid)
        auc, best = self.valid.get("auc"), self.standing.best_auc
        if better(self.job.train, auc=auc, best=best):
            self.standing = replace(self.standing, best_auc=auc, best_step=self.learner.step, stale_epochs=0)
            return True
        self.standing = replace(self.standing, stale_epochs=self.standing.stale_epochs + 1)
        return False

    def _evaluate(self, name: str, paths: list[str]) -> dict[str, float]:
        self.watcher.begin(f"evaluating {name}")
        try:
            figures = self._measured(
                paths, progress=lambda rows: self.watcher.advance(share=None, facts={"rows": f"{rows:,}"})
            )
        finally:
            self.watcher.end()
        self.watcher.say(f"{name}: " + _list(figures))
        return figures

    def _measured(self, paths: list[str], *, progress: Callable[[int], None]) -> dict[str, float]:
        dataset = Dataset(
            data=self.job.data,
            schema=self.schema,
            paths=paths,
            batch_size=EVALUATION_BATCH,
            seed=self.job.seed,
            shuffle=False,
        )
        return flat(evaluate(self.learner, dataset, progress=progress))

    def _sweep(self, *, end_of_epoch: bool) -> None:
        """Evict rows where the job asks for it."""
        every = self.job.tables.evict_every
        due = end_of_epoch if every == 0 else not end_of_epoch and self.learner.step % every == 0
        if due and self.learner.evicts:
            removed = self.learner.evict()
            if removed:
                self.watcher.say(f"evicted {removed:,} rows")

    def _checkpoint_due(self, step: int) -> bool:
        every = self.job.checkpoint.every_steps
        return (every > 0 and step % every == 0) or step == self.job.train.max_steps

    def _enough(self) -> bool:
        return enough(self.job.train, step=self.learner.step)


def describe(*, step: int, epoch: int, figures: dict[str, float]) -> str:
    """A line of metrics as people read it."""
    return f"epoch {epoch + 1}  step {step:>6}  " + _list(figures)


def _list(figures: dict[str, float]) -> str:
    shown = ("loss", "auc", "batch_auc", "logloss", "calibration", "gauc", "rows_per_second")
    parts = []
    for name, value in figures.items():
        if name in shown or "." in name:
            parts.append(f"{name} {value:,.0f}" if name == "rows_per_second" else f"{name} {value:.5f}")
    return "  ".join(parts)
