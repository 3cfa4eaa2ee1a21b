"""What people see of training: the progress bar, and the line of metrics after each interval."""

from __future__ import annotations

import time

from clickline.config import Job
from clickline.progress import Watcher
from clickline.train.evaluation.metric_lines import training_line
from clickline.train.learner import Learned
from clickline.train.loop.data_pass import AnyPass
from clickline.train.monitoring.epoch_progress import EpochProgress
from clickline.train.monitoring.journal import Interval

_SHOW_EVERY = 0.1
"""Seconds between two updates of the progress bar."""


class TrainingLog:
    """Shows one run to its watcher."""

    def __init__(self, *, job: Job, labels: int, watcher: Watcher) -> None:
        self._job, self._labels, self._watcher = job, labels, watcher
        self._progress = EpochProgress()
        self._shown_at = 0.0

    def begin_epoch(self, epoch: int) -> None:
        """Start the bar of an epoch, counted from 1."""
        self._progress.begin()
        self._watcher.begin(f"epoch {epoch}/{self._job.train.epochs}")

    def show(self, result: Learned, interval: Interval, data: AnyPass) -> None:
        """Update the progress bar after a step, at most ten times a second."""
        auc = self._progress.recent_auc(interval.logits, interval.labels)
        now = time.perf_counter()
        if now - self._shown_at > _SHOW_EVERY:
            figures = {"rows/s": f"{interval.rate:,.0f}", "loss": f"{result.loss:.4f}"}
            figures |= {} if auc is None else {"auc": f"{auc:.4f}"}
            self._watcher.advance(share=data.share(), facts=figures)
            self._shown_at = now

    def figures(self, interval: Interval) -> dict[str, float]:
        """The figures of an interval."""
        return interval.figures(self._job.metrics, labels=self._labels)

    def say_line(self, figures: dict[str, float], *, step: int, epoch: int, data: AnyPass) -> None:
        """Print an interval's line of metrics."""
        progress = self._progress.text(data.share())
        self._watcher.say(training_line(step=step, epoch=epoch, figures=figures, progress=progress))
