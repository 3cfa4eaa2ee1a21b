"""Metrics over what trainers report: of windows of batches while training, and of all rows after an evaluation.

All predictions come together here, so AUC and logloss are those of one process that had made them all.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clickline.config import Job
from clickline.config.metric_settings import MetricSettings
from clickline.config.training import Loss
from clickline.ps.protocol.framing import Arrays
from clickline.train.evaluation.interval_figures import batch_figures, interval_figures
from clickline.train.evaluation.metric_set import MetricSet, flat


class MetricWindow:
    """Batches since the last line. In lockstep, a line holds exactly the steps between two multiples of `every`."""

    def __init__(
        self, *, every: int, lockstep: bool, metrics: MetricSettings, labels: int = 1, loss: Loss = "log"
    ) -> None:
        self._every, self._lockstep, self._metrics, self._labels = every, lockstep, metrics, labels
        self._loss: Loss = loss
        self._reports: list[Arrays] = []
        self._steps = 0
        self._since = time.monotonic()
        self._rows = 0

    def add(self, arrays: Arrays) -> None:
        """Batches of one trainer: losses, sizes, steps, and the rows' logits, labels and weights."""
        # Copies: the arrays are views into the message.
        self._reports.append({name: np.array(array) for name, array in arrays.items()})
        self._steps += len(arrays["losses"])
        self._rows += int(arrays["sizes"].sum())

    @property
    def rate(self) -> float:
        return self._rows / max(time.monotonic() - self._since, 1e-9)

    @property
    def loss(self) -> float | None:
        return float(self._reports[-1]["losses"][-1]) if self._reports and len(self._reports[-1]["losses"]) else None

    def recent(self) -> tuple[list[NDArray[Any]], list[NDArray[Any]]]:
        """Logits and labels of the reports since the last line."""
        return [report["logits"] for report in self._reports], [report["labels"] for report in self._reports]

    def due(self, *, reached: int) -> int | None:
        """The step of the line that can be written now, if any. `reached`: the last step that all have reported."""
        if self._lockstep:
            steps = [int(report["steps"][0]) for report in self._reports if len(report["steps"])]
            if not steps:
                return None
            # Steps count from 0, and the line of step `end` holds those before it: it is complete when all trainers
            # have reported step `end - 1`.
            end = (min(steps) // self._every + 1) * self._every
            return end if reached >= end - 1 else None
        return reached if self._steps >= self._every else None

    def line(self, upto: int) -> dict[str, float]:
        """Figures over the reported batches, in lockstep over those of steps before `upto`; they are gone then."""
        taken, kept = [], []
        for report in self._reports:
            here, later = _split(report, upto) if self._lockstep else (report, None)
            taken += [here] if len(here["losses"]) else []
            kept += [later] if later is not None and len(later["losses"]) else []
        rate = self.rate
        self._reports, self._steps = kept, sum(len(report["losses"]) for report in kept)
        self._since, self._rows = time.monotonic(), 0
        if not taken:
            return {}
        logits = np.concatenate([report["logits"] for report in taken])
        labels = np.concatenate([report["labels"] for report in taken])
        weights = [report["weights"] for report in taken if "weights" in report]
        figures = interval_figures(
            logits,
            labels,
            np.concatenate(weights) if weights else None,
            settings=self._metrics,
            loss=self._loss,
        )
        if self._labels > 1:  # with one label, this is the logloss, or the square of the RMSE
            figures["loss"] = self._mean(taken)
        last = int(taken[-1]["sizes"][-1])
        figures |= batch_figures(taken[-1]["logits"][-last:], taken[-1]["labels"][-last:], loss=self._loss)
        return figures | {"rows_per_second": rate}

    def _mean(self, reports: list[Arrays]) -> float:
        """Mean loss over steps; in lockstep a step's loss is the mean over all its rows, whoever had them."""
        losses = np.concatenate([report["losses"] for report in reports])
        if not self._lockstep:
            return float(losses.mean())
        sizes = np.concatenate([report["sizes"] for report in reports]).astype(np.float64)
        steps = np.concatenate([report["steps"] for report in reports])
        number = np.unique(steps, return_inverse=True)[1]
        return float((np.bincount(number, losses * sizes) / np.bincount(number, sizes)).mean())


def _split(report: Arrays, upto: int) -> tuple[Arrays, Arrays]:
    """A report's batches of steps before `upto`, and the others."""
    # A trainer reports its batches in the order of steps, so `steps` is sorted. Some columns have an entry for each
    # batch, the others for each row.
    first = int(np.searchsorted(report["steps"], upto))
    rows = int(report["sizes"][:first].sum())
    parts: tuple[Arrays, Arrays] = ({}, {})
    for name, array in report.items():
        cut = first if name in ("losses", "sizes", "steps") else rows
        parts[0][name], parts[1][name] = array[:cut], array[cut:]
    return parts


class EvaluationScores:
    """Predictions of an evaluation, by piece: a piece that is predicted twice counts once."""

    def __init__(self) -> None:
        self._pieces: dict[int, Arrays] = {}

    def add(self, piece: int, arrays: Arrays) -> None:
        self._pieces[piece] = {name: np.array(array) for name, array in arrays.items()}

    @property
    def rows(self) -> int:
        return sum(len(arrays["labels"]) for arrays in self._pieces.values())

    def figures(self, labels: Sequence[str], metrics: MetricSet) -> dict[str, float]:
        """Exact figures of each label over all rows, in the order of the pieces."""
        parts = [self._pieces[piece] for piece in sorted(self._pieces) if len(self._pieces[piece]["labels"])]
        if not parts:
            return {"rows": 0}
        columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        return flat(metrics.measure_all(labels, columns))


class MetricWindows:
    """The metrics of a run: the window of training, the scores of an evaluation, and the steps that were reported.

    Not locked: the run's state, which owns it, is.
    """

    def __init__(self, *, job: Job, labels: int, lockstep: bool) -> None:
        self._job, self._labels, self._lockstep = job, labels, lockstep
        self.window = self._empty()
        self.scores = EvaluationScores()
        self.reached: dict[int, int] = {}
        """Lockstep: the last step that each trainer has reported, by client number."""

    def _empty(self) -> MetricWindow:
        job = self._job
        return MetricWindow(
            every=job.train.log_every,
            lockstep=self._lockstep,
            metrics=job.metrics,
            labels=self._labels,
            loss=job.train.loss,
        )

    def rewind(self) -> None:
        """Drop batches that were reported: their generation is over."""
        self.window = self._empty()

    def begin_evaluation(self) -> None:
        self.scores = EvaluationScores()
