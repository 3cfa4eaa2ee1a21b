"""A run: one job that trains in one directory, from its start or from a checkpoint.

A Run holds the parts that training_loop.py works with, and knows how to begin, how to measure the model, and what to
say when it is interrupted.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import torch

from clickline.config import Job
from clickline.progress import Watcher
from clickline.train.checkpoints.checkpoint_figures import CheckpointFigures, measured_on
from clickline.train.checkpoints.checkpoint_files import Checkpoint
from clickline.train.checkpoints.warm_start import kept_start
from clickline.train.evaluation.metric_lines import figures_line
from clickline.train.interrupts import Interrupts, TrainingInterrupted, finished_within, interruption
from clickline.train.learner import Learner
from clickline.train.loop.run_checkpoints import RunCheckpoints
from clickline.train.loop.single_process import TrainingProcess
from clickline.train.loop.training_state import RunPosition, TrainingState
from clickline.train.monitoring.journal import Journal
from clickline.train.monitoring.member_status import MemberStatus
from clickline.train.monitoring.metric_interval import Interval
from clickline.train.monitoring.piece_progress import progress_in


class Run:
    """One run of one job in one directory."""

    def __init__(
        self,
        *,
        job: Job,
        learner: Learner,
        directory: Path,
        watcher: Watcher,
        checkpoints: RunCheckpoints,
        process: TrainingProcess,
        interrupts: Interrupts,
    ) -> None:
        self.job = job
        self.learner = learner
        self.directory = directory
        self.watcher = watcher
        self.checkpoints = checkpoints
        self.process = process
        self.interrupts = interrupts
        self.state = TrainingState()
        self.test_figures: dict[str, float] = {}
        self.phase = "gathering"
        """gathering, training or evaluating, for the status."""
        self.progress_at = math.inf
        """When the run last made progress, by the monotonic clock; infinite while it saves, which has no steps."""
        self.epoch_share: float | None = None
        """The share of the epoch under way that is done; None if unknown."""

    def resume(self, checkpoint: Checkpoint) -> None:
        """Continue at the checkpoint's position, with its weights and state."""
        self.checkpoints.check_resumable(checkpoint)
        tensors = self.checkpoints.load(checkpoint)
        self.learner.restore(tensors, step=checkpoint.step)
        position = RunPosition.from_dict(checkpoint.manifest["standing"])
        self.state.position = replace(position, warm=kept_start(self.directory, position.warm))
        self.state.pieces = progress_in(checkpoint)
        self.state.interval = Interval.restored(tensors)
        self.checkpoints.resumed(checkpoint)

    def warm_start(self, given: Checkpoint) -> None:
        """Begin with the weights of another run's checkpoint, and count steps on from its step."""
        tensors = self.checkpoints.load(given)
        self.learner.restore(tensors, step=given.step, weights_only=True)
        # `weights_only` leaves the counters alone. They count on from the given ones, since its rows carry ticks of
        # that clock and versions of two runs must differ (docs/decisions/0013).
        self.learner.step, self.learner.tick = given.step, int(tensors.get("tick", torch.tensor(given.step)))
        self.state.position = replace(self.state.position, first_step=given.step, warm=str(given.path))

    def save(self) -> None:
        """Write a checkpoint of this instant."""
        # No step ends while a checkpoint is written: a long save must not be reported as a slow process.
        self.progress_at = math.inf
        self.checkpoints.save(self.state)
        self.progress_at = time.monotonic()

    @property
    def chosen(self) -> Checkpoint:
        """The result of the run: its best checkpoint by validation, or the last one."""
        best = self.state.position.best_step
        return self.checkpoints.read(self.learner.step if best is None else best)

    def test(self, journal: Journal) -> dict[str, float]:
        """Figures of the chosen checkpoint on the test data; kept beside it."""
        chosen = self.chosen
        if chosen.step != self.learner.step:
            # Tables load only into empty buckets; rows that came after the chosen step must not be tested either.
            self.learner.sparse.empty()
            self.learner.restore(self.checkpoints.load(chosen), step=chosen.step, weights_only=True)
            self.watcher.say(f"testing the best checkpoint, {chosen.path.name}")
        measured = self.evaluate("test", self.job.data.test)
        journal.line(kind="test", step=chosen.step, epoch=self.state.epoch, figures=measured.figures)
        self.checkpoints.record(chosen, "test", measured)
        self.test_figures = measured.figures
        return self.test_figures

    def evaluate(self, name: str, paths: list[str]) -> CheckpointFigures:
        """Figures of the model as it is now, on some files of the job."""
        files = measured_on(self.job.data, paths)
        self.watcher.begin(f"evaluating {name}")
        self.phase, before = "evaluating", self.phase
        self.progress_at = time.monotonic()
        try:
            figures = self.process.measure(paths, progress=self._evaluated)
        finally:
            self.watcher.end()
            self.phase = before
        self.watcher.say(f"{name}: " + figures_line(figures))
        return CheckpointFigures(figures, files)

    def _evaluated(self, rows: int) -> None:
        self.progress_at = time.monotonic()
        self.watcher.advance(share=None, facts={"rows": f"{rows:,}"})
        if self.process.stop_requested():
            self.stop()

    def members(self) -> list[MemberStatus]:
        """The processes that train, as a status lists them."""
        return self.process.members(self.state)

    def stop(self) -> NoReturn:
        """End an interrupted run between two steps, with a checkpoint if it can be written in time."""
        # First of all: the timer, which was set for the step to end, would otherwise fire within the save.
        self.interrupts.acknowledge()
        why, limit = "", self.job.checkpoint.interrupt_timeout
        missing = self.checkpoints.saved_step != self.learner.step
        if missing and limit > 0:
            self.watcher.end()
            self.watcher.say("interrupted: writing a checkpoint; Ctrl+C again ends at once")
            why = finished_within(limit, self.save)
        elif missing:
            why = "checkpoint.interrupt_timeout is 0"
        raise self.interruption(written=missing and not why, why=why)

    def interruption(self, *, written: bool = False, why: str) -> TrainingInterrupted:
        """The error that ends an interrupted run: it says what was kept and how to resume."""
        return interruption(
            self.interrupts.name,
            directory=self.directory,
            step=self.learner.step,
            first_step=self.state.position.first_step,
            newest=self.checkpoints.newest.path,
            written=written,
            why=why,
        )
