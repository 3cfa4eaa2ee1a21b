"""A run: epochs over the training data, evaluation after each, checkpoints on the way, the best one kept.

Everything that decides what happens next (step, position in the data, best figure so far, unfinished interval) is
in every checkpoint, so a run that is killed and resumed ends with the same bits as one that was not.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import torch

from clickline.config import Job
from clickline.data.batch import Batch
from clickline.data.dataset import Dataset
from clickline.data.position import Position
from clickline.data.schema import Schema
from clickline.progress import Watcher
from clickline.train.checkpoints import checkpoint_files
from clickline.train.checkpoints.checkpoint_figures import CheckpointFigures, measured_on, record
from clickline.train.checkpoints.warm_start import restart_rows
from clickline.train.early_stopping import better, early_stop_message, enough, last_step, score, stopped_early
from clickline.train.evaluation.evaluation import evaluate, flat
from clickline.train.evaluation.metric_lines import figures_line, training_line
from clickline.train.evaluation.metric_set import MetricSet
from clickline.train.interrupts import Interrupts, TrainingInterrupted, finished_within, interruption
from clickline.train.learner import Learned, Learner
from clickline.train.monitoring.epoch_progress import EpochProgress
from clickline.train.monitoring.journal import Interval, Journal
from clickline.train.monitoring.piece_progress import PieceProgress, progress_in
from clickline.train.monitoring.run_status import Saved, own_process
from clickline.train.piece_share import Alone, Share
from clickline.train.sparse_tables import BUCKETS

EVALUATION_BATCH = 4096


@dataclass(frozen=True)
class Standing:
    """Where a run stands between two steps."""

    epoch: int = 0
    position: Position | None = None
    rows: int = 0
    epoch_rows: int | None = None
    """Rows of a whole epoch, once one has been seen; what the progress bar goes by from then on."""
    best_score: float | None = None
    """The best validation, by the figure of early stopping, turned so that larger is better."""
    best_metric: str = "auc"
    """The figure that the best score is of."""
    best_step: int | None = None
    stale_epochs: int = 0
    validation_due: bool = False
    """An epoch is over, but has not been validated."""
    first_step: int = 0
    """Where the run began to count: at 0, or at the step of the checkpoint whose weights it was given."""
    warm: str | None = None
    """The checkpoint whose weights the run began with."""

    def to_dict(self) -> dict[str, Any]:
        return {**self.__dict__, "position": None if self.position is None else self.position.to_dict()}

    @classmethod
    def from_dict(cls, facts: dict[str, Any]) -> Standing:
        """From a checkpoint of any strategy; what only others need to know is left out."""
        known = {name: value for name, value in facts.items() if name in cls.__dataclass_fields__}
        position = facts.get("position")
        return cls(**{**known, "position": None if position is None else Position.from_dict(position)})


class Run:
    """One run of one job in one directory.

    A run of several ranks overrides where its batches come from, how it measures, and how it saves and loads.
    """

    _buckets = (0, BUCKETS)
    """Of the tables' rows, those of this process."""

    def __init__(
        self,
        *,
        job: Job,
        schema: Schema,
        learner: Learner,
        directory: Path,
        watcher: Watcher,
        check: Callable[[], None] = lambda: None,
        interrupts: Interrupts | None = None,
    ) -> None:
        """`check` raises if this process may not write to the directory any more."""
        self.job = job
        self.check = check
        self.schema = schema
        self.learner = learner
        self.directory = directory
        self.checkpoint_directory = directory / "checkpoints"
        self.watcher = watcher
        self.metrics = MetricSet.of(job.metrics)
        self.standing = Standing()
        self._progress: PieceProgress | None = None
        """How far this epoch has come, where it is read in pieces."""
        self.interval = Interval()
        self._progress_of_epoch = EpochProgress()
        self._epoch_share: Callable[[], float | None] = lambda: None
        """How much of the epoch is done."""
        self._valid: tuple[int, CheckpointFigures] | None = None
        """The step of the last validation, and its figures."""
        self.tested: dict[str, float] = {}
        self.phase = "gathering"
        """gathering, training or evaluating, for the status."""
        self.progress_at = math.inf
        """When this run last got on; infinite while it does what has no steps, such as saving."""
        self.saved = Saved()
        self.interrupts = interrupts or Interrupts()
        self._stop_at = -1
        """The step after which an interrupted run stops, once nothing will be under way then."""
        self._saved_at = -1
        self._shown = 0.0

    def resume(self, checkpoint: checkpoint_files.Checkpoint) -> None:
        """Stand where the checkpoint stood."""
        self._check_position(checkpoint)
        tensors = self._load(checkpoint)
        self.learner.restore(tensors, step=checkpoint.step)
        self.standing = Standing.from_dict(checkpoint.manifest["standing"])
        self._progress = progress_in(checkpoint)
        self.interval = Interval.restored(tensors)
        self._saved_at = checkpoint.step
        self.saved = Saved(checkpoint.path)

    def warm_start(self, given: checkpoint_files.Checkpoint) -> None:
        """Begin with the weights of another run's checkpoint, and go on counting from its step."""
        tensors = self._load(given)
        self.learner.restore(tensors, step=given.step, weights_only=True)
        self.learner.step, self.learner.tick = given.step, int(tensors.get("tick", torch.tensor(given.step)))
        self.standing = replace(self.standing, first_step=given.step, warm=str(given.path))

    def train(self, journal: Journal) -> None:
        """Epochs until the last, or until early stopping or max_steps."""
        settings = self.job.train
        self.phase, self.progress_at = "training", time.monotonic()
        if self.standing.validation_due:
            self._end_epoch(journal)
        while (
            self.standing.epoch < settings.epochs
            and not stopped_early(self.job.train, stale_epochs=self.standing.stale_epochs)
            and not self._enough()
        ):
            self._epoch(journal)
        if stopped_early(self.job.train, stale_epochs=self.standing.stale_epochs):
            self.watcher.say(early_stop_message(self.standing.stale_epochs, best_step=self.standing.best_step))
        if self._saved_at != self.learner.step:
            self.save()

    @property
    def chosen(self) -> checkpoint_files.Checkpoint:
        """The checkpoint that this run came to: the best one by validation, or the last."""
        step = self.learner.step if self.standing.best_step is None else self.standing.best_step
        return checkpoint_files.read(self.checkpoint_directory / f"step-{step:010d}")

    def test(self, journal: Journal) -> dict[str, float]:
        """Figures on the test data, of the best checkpoint if validation chose one; kept beside it."""
        chosen = self.chosen
        if chosen.step != self.learner.step:
            self.learner.sparse.empty()
            self.learner.restore(self._load(chosen), step=chosen.step, weights_only=True)
            self.watcher.say(f"testing the best checkpoint, {chosen.path.name}")
        measured = self._evaluate("test", self.job.data.test)
        journal.line(kind="test", step=chosen.step, epoch=self.epoch, figures=measured.figures)
        self._record(chosen, "test", measured)
        self.tested = measured.figures
        return self.tested

    def _record(self, checkpoint: checkpoint_files.Checkpoint, kind: str, measured: CheckpointFigures) -> None:
        record(checkpoint, kind, measured, check=self.check)

    @property
    def valid_figures(self) -> dict[str, float]:
        """Of the last validation in this process, whichever checkpoint it was of."""
        return {} if self._valid is None else self._valid[1].figures

    def members(self) -> list[dict[str, Any]]:
        """The processes that train, as a status lists them."""
        tables = {name: len(table) for name, table in self.learner.sparse.tables.items()}
        done = {"rows": self.standing.rows, "steps": self.learner.step}
        return [{**own_process(0), **done, "rows_per_second": round(self.interval.rate, 1), "tables": tables}]

    def save(self) -> checkpoint_files.Checkpoint:
        """Write a checkpoint of this instant and drop those no longer kept."""
        began, self.progress_at = time.monotonic(), math.inf
        checkpoint = self._save()
        self.progress_at = time.monotonic()
        self._saved_at = self.learner.step
        self.saved = Saved(checkpoint.path, self.progress_at - began, self.saved.count + 1)
        return checkpoint

    def _save(self) -> checkpoint_files.Checkpoint:
        checkpoint = checkpoint_files.write(
            self.checkpoint_directory,
            facts=self._facts(),
            tensors={**self.learner.tensors(), **self.interval.tensors()},
            tables=self.learner.sparse.tables,
            check=self.check,
        )
        self._prune()
        return checkpoint

    def _prune(self) -> None:
        checkpoint_files.prune(
            self.checkpoint_directory,
            newest=self.learner.step,
            keep=self.job.checkpoint.keep,
            also=self.standing.best_step,
            check=self.check,
        )

    def _facts(self) -> dict[str, Any]:
        """What a manifest says of this instant. Figures of an earlier step are not this checkpoint's."""
        valid = None if self._valid is None or self._valid[0] != self.learner.step else self._valid[1]
        return {
            "step": self.learner.step,
            "standing": self.standing.to_dict(),
            "progress": None if self._progress is None else self._progress.to_dict(),
            "job": self.job.model_dump(mode="json"),
            "schema": self.schema.to_dict(),
            "valid": {} if valid is None else valid.figures,
            "valid_files": [] if valid is None else valid.files,
        }

    def _load(self, checkpoint: checkpoint_files.Checkpoint) -> dict[str, torch.Tensor]:
        return checkpoint_files.load(checkpoint, tables=self.learner.sparse.tables)

    def _check_position(self, checkpoint: checkpoint_files.Checkpoint) -> None:
        """Raise unless this run can go on from there. One process can from everywhere."""

    @property
    def epoch(self) -> int:
        """The epoch under way, or the last one, counted from 1; 0 before the first step."""
        return self.standing.epoch + self._midway

    @property
    def _midway(self) -> bool:
        """Whether part of the current epoch is done."""
        return self.standing.position is not None or self._progress is not None

    def _epoch(self, journal: Journal) -> None:
        standing = self.standing
        whole = not self._midway
        if standing.epoch > 0 and whole:
            self._restart_rows()
        self._progress_of_epoch.begin()
        self.watcher.begin(f"epoch {standing.epoch + 1}/{self.job.train.epochs}")
        before = standing.rows
        self._pass(journal)
        self.watcher.end()
        if self._enough():
            return
        self._sweep(end_of_epoch=True)
        rows = self.standing.rows - before if whole else standing.epoch_rows
        self.standing = replace(
            self.standing,
            epoch=standing.epoch + 1,
            position=None,
            epoch_rows=rows,
            validation_due=bool(self.job.data.valid),
        )
        self._end_epoch(journal)

    def _end_epoch(self, journal: Journal) -> None:
        """Validate and save, as far as the job wants it."""
        every = self.job.checkpoint.every_epochs
        keep_this = every > 0 and self.standing.epoch % every == 0
        if self.standing.validation_due:
            keep_this = self._validate(journal) or keep_this
        if keep_this:
            self.save()

    def _interrupt_due(self) -> bool:
        """Whether the run should stop after this step: several ranks must agree on it."""
        return self.interrupts.asked

    def _barrier(self, step: int) -> bool:
        """Whether nothing may be under way after this step."""
        if self._interrupt_due():
            self._stop_at = step
            return True
        return self._checkpoint_due(step)

    def _stop(self) -> NoReturn:
        """End an interrupted run between two steps, with a checkpoint if that can be written in time."""
        self.interrupts.acknowledge()
        why, limit = "", self.job.checkpoint.interrupt_timeout
        missing = self._saved_at != self.learner.step
        if missing and limit > 0:
            self.watcher.end()
            self.watcher.say("interrupted: writing a checkpoint; Ctrl+C again ends at once")
            why = finished_within(limit, self.save)
        elif missing:
            why = "checkpoint.interrupt_timeout is 0"
        raise self.interruption(written=missing and not why, why=why)

    def interruption(self, *, written: bool = False, why: str) -> TrainingInterrupted:
        """What this run says when it ends before its time."""
        return interruption(
            self.interrupts.name,
            directory=self.directory,
            step=self.learner.step,
            first_step=self.standing.first_step,
            newest=self.saved.path,
            written=written,
            why=why,
        )

    def _restart_rows(self) -> None:
        restart_rows(
            self.learner.sparse.tables,
            embeddings=self.learner.sparse.embeddings,
            settings=self.job.tables,
            start=self.standing.warm,
            buckets=self._buckets,
            threads=self.learner.sparse.threads,
        )

    def _pass(self, journal: Journal) -> None:
        """What is left of the epoch's data."""
        if self._progress is not None:
            self._pass_pieces(journal, self._progress)
            return
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

    def _pass_pieces(self, journal: Journal, progress: PieceProgress) -> None:
        """What others have left of an epoch that they read in pieces."""
        share = Share(
            job=self.job,
            schema=self.schema,
            paths=self.job.data.train,
            batch_size=self.job.train.batch_size,
            shuffle=True,
            exchange=Alone(),
            progress=progress,
        )
        with closing(share.turns(epoch=self.standing.epoch)) as turns:
            for batch, turn, learned in self.learner.learn(turns, barrier=self._checkpoint_due):
                progress.heed(turn, own=share.own)
                self.standing = replace(self.standing, rows=self.standing.rows + len(batch))
                self.interval.add(batch, learned)
                self._after_step(learned, journal, share=lambda: share.share)
                if self._enough():
                    return
        self._progress = None

    def _steps(self, batches: Iterator[tuple[Batch, Position]], dataset: Dataset, journal: Journal) -> None:
        for batch, position, learned in self.learner.learn(batches, barrier=self._barrier):
            self.standing = replace(self.standing, position=position, rows=self.standing.rows + len(batch))
            self.interval.add(batch, learned)
            self._after_step(learned, journal, share=partial(self._share, dataset, position))
            if self._enough():
                break

    def _after_step(self, learned: Learned, journal: Journal, *, share: Callable[[], float | None]) -> None:
        """Log, show, sweep and save, each when it is due."""
        self.progress_at = time.monotonic()
        step, self._epoch_share = self.learner.step, share
        auc = self._progress_of_epoch.recent_auc(self.interval.logits, self.interval.labels)
        if step % self.job.train.log_every == 0:
            self._log(journal)
        now = time.perf_counter()
        if now - self._shown > 0.1:
            facts = {"rows/s": f"{self.interval.rate:,.0f}", "loss": f"{learned.loss:.4f}"}
            facts |= {} if auc is None else {"auc": f"{auc:.4f}"}
            self.watcher.advance(share=share(), facts=facts)
            self._shown = now
        self._sweep(end_of_epoch=False)
        if self._checkpoint_due(step):
            self.save()
        if self._stop_at == step or (self.job.train.staleness == 0 and self._interrupt_due()):
            self._stop()

    def _log(self, journal: Journal) -> None:
        """A line of metrics about the interval that ends here."""
        self._write_line(self.interval.figures(self.job.metrics, labels=len(self.schema.labels)), journal)
        self.interval = Interval()

    def _write_line(self, figures: dict[str, float], journal: Journal) -> None:
        step, epoch = self.learner.step, self.standing.epoch + 1
        journal.line(kind="train", step=step, epoch=epoch, figures=figures)
        progress = self._progress_of_epoch.text(self._epoch_share())
        self.watcher.say(training_line(step=step, epoch=epoch, figures=figures, progress=progress))

    def _share(self, dataset: Dataset, position: Position) -> float | None:
        """How much of the epoch is done: by rows if its length is known, else by bytes."""
        rows = self.standing.epoch_rows
        if rows:
            return min((self.standing.rows - self.standing.epoch * rows) / rows, 1.0)
        return dataset.share(position)

    def _validate(self, journal: Journal) -> bool:
        """Evaluate; return whether this is the best so far."""
        measured = self._evaluate("valid", self.job.data.valid)
        self._valid = self.learner.step, measured
        journal.line(kind="valid", step=self.learner.step, epoch=self.standing.epoch, figures=measured.figures)
        self.standing = replace(self.standing, validation_due=False)
        settings, standing = self.job.train, self.standing
        metric = settings.early_stopping.metric
        best = standing.best_score if standing.best_metric == metric else None
        if better(settings, measured.figures, best=best):
            found = score(settings, measured.figures)
            self.standing = replace(
                standing, best_score=found, best_metric=metric, best_step=self.learner.step, stale_epochs=0
            )
            return True
        self.standing = replace(self.standing, stale_epochs=self.standing.stale_epochs + 1)
        return False

    def _evaluate(self, name: str, paths: list[str]) -> CheckpointFigures:
        files = measured_on(self.job.data, paths)
        self.watcher.begin(f"evaluating {name}")
        self.phase, before = "evaluating", self.phase
        self.progress_at = time.monotonic()
        try:
            figures = self._measured(paths, progress=self._show_evaluated)
        finally:
            self.watcher.end()
            self.phase = before
        self.watcher.say(f"{name}: " + figures_line(figures))
        return CheckpointFigures(figures, files)

    def _show_evaluated(self, rows: int) -> None:
        self.progress_at = time.monotonic()
        self.watcher.advance(share=None, facts={"rows": f"{rows:,}"})

    def _measured(self, paths: list[str], *, progress: Callable[[int], None]) -> dict[str, float]:
        dataset = Dataset(
            data=self.job.data,
            schema=self.schema,
            paths=paths,
            batch_size=EVALUATION_BATCH,
            seed=self.job.seed,
            shuffle=False,
        )

        def advance(rows: int) -> None:
            progress(rows)
            if self.interrupts.asked:
                self._stop()

        return flat(evaluate(self.learner, dataset, metrics=self.metrics, progress=advance))

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
        last = last_step(self.job.train, first_step=self.standing.first_step)
        return (every > 0 and step % every == 0) or (step == last and last > 0)

    def _enough(self) -> bool:
        return enough(self.job.train, step=self.learner.step, first_step=self.standing.first_step)
