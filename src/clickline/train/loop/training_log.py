"""What people see of training: the progress bar, and the line of metrics after each interval."""

from __future__ import annotations

import time

import numpy as np

from clickline.config import Job
from clickline.progress import Watcher
from clickline.train.evaluation.metric_lines import TrainingLines
from clickline.train.learner import Learned
from clickline.train.loop.data_pass import AnyPass
from clickline.train.monitoring.epoch_progress import EpochProgress
from clickline.train.monitoring.metric_interval import Interval

_SHOW_EVERY = 0.1
"""Seconds between two updates of the progress bar."""


class TrainingLog:
    """Shows one run to its watcher."""

    def __init__(self, *, job: Job, labels: int, watcher: Watcher) -> None:
        self._job, self._labels, self._watcher = job, labels, watcher
        self._progress = EpochProgress(loss=job.train.loss)
        self._lines = TrainingLines(job.train.log_format)
        self._shown_at = 0.0
        self.share: float | None = None
        """The share of the epoch that was done when it was last shown."""

    def begin_epoch(self, epoch: int, *, step: int) -> None:
        """Start the bar of an epoch, counted from 1; `step` is the last one before it."""
        self._progress.begin()
        self._lines.begin_epoch(step)
        self._watcher.begin(f"epoch {epoch}/{self._job.train.epochs}")

    def show(self, result: Learned, interval: Interval, data: AnyPass) -> None:
        """Update the progress bar after a step, at most ten times a second."""
        recent = self._progress.recent_figures(interval.logits, interval.labels)
        now = time.perf_counter()
        if now - self._shown_at > _SHOW_EVERY:
            figures = {"rows/s": f"{interval.rate:,.0f}", "loss": f"{result.loss:.4f}"}
            figures |= {name: f"{value:.4f}" for name, value in recent.items()}
            self.share = data.share()
            self._watcher.advance(share=self.share, facts=figures)
            self._shown_at = now

    def end_epoch(self, epoch: int) -> None:
        """Say what is said after an epoch, which counts from 1."""
        if (line := self._lines.end_line(epoch)) is not None:
            self._watcher.say(line)

    def figures(self, interval: Interval) -> dict[str, float]:
        """The figures of an interval."""
        if self._job.train.loss == "log":
            self._lines.add(np.concatenate(interval.logits), np.concatenate(interval.labels))
        return interval.figures(self._job.metrics, labels=self._labels, loss=self._job.train.loss)

    def say_line(self, figures: dict[str, float], *, step: int, epoch: int, data: AnyPass) -> None:
        """Print an interval's line of metrics."""
        progress = self._progress.text(data.share())
        self._watcher.say(self._lines.line(step=step, epoch=epoch, figures=figures, progress=progress))
