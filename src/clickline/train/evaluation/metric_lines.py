"""Figures as people read them: one line each for an interval of training, a validation and a test.

In the format paddlerec, lines are those of PaddleRec 1.8, for programs that read its logs: a time and a level, a tab,
and epochs that count from 0. After an epoch there is one with figures over all of it; the AUC of those is taken from
4096 bins of the prediction, as PaddleRec does it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

import numpy as np

from clickline.config.training import LineFormat
from clickline.train.evaluation.metric_set import FIGURES
from clickline.train.evaluation.metrics import Floats, predictions_of

_SHOWN = ("auc", "batch_auc", "logloss", "calibration", "ece", "gauc", "rmse", "mae", "loss")
"""Of the figures that every job has, those that fit on a line. What a job asks for itself is always shown."""
_RATE = "rows_per_second"
_BINS = 4096


class TrainingLines:
    """Lines about intervals of training, in the format that the job wants."""

    def __init__(self, format: LineFormat) -> None:
        self._format = format
        self._before = 0
        """Steps before the epoch that is shown."""
        self._totals = _EpochTotals()

    def begin_epoch(self, step: int) -> None:
        """Count the epoch's batches from here; `step` is the last one before it."""
        self._before = step
        self._totals = _EpochTotals()

    def add(self, outputs: Floats, labels: Floats) -> None:
        """Take the rows of an interval into the figures of the epoch: logits, of clicks."""
        if self._format == "paddlerec":
            self._totals.add(outputs, labels)

    def line(self, *, step: int, epoch: int, figures: Mapping[str, float], progress: str = "") -> str:
        """An interval; epochs count from 1."""
        if self._format == "paddlerec":
            self._totals.add_loss(figures)
            return _paddlerec_line(epoch=epoch - 1, batch=step - self._before, figures=figures)
        return f"epoch {epoch}  step {step:>6}  {figures_line(figures)}" + (f"  {progress}" if progress else "")

    def end_line(self, epoch: int) -> str | None:
        """What is said after an epoch, which counts from 1, if anything."""
        return self._totals.line(epoch - 1) if self._format == "paddlerec" else None


class _EpochTotals:
    """Figures over all lines of an epoch."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._losses: list[tuple[float, float]] = []
        self._bins = np.zeros((2, _BINS), np.int64)
        """Rows without a click and with one, by prediction."""

    def add(self, outputs: Floats, labels: Floats) -> None:
        places = np.minimum((predictions_of(outputs, loss="log") * _BINS).astype(np.int64), _BINS - 1)
        clicked = labels > 0.5
        for kind, rows in enumerate((~clicked, clicked)):
            self._bins[kind] += np.bincount(places[rows], minlength=_BINS)

    def add_loss(self, figures: Mapping[str, float]) -> None:
        loss = _loss_of(figures)
        if loss is not None:
            self._losses.append((loss, figures.get("rows", 0)))

    def line(self, epoch: int) -> str:
        figures = {"LOSS": self._loss, "AUC": self._auc}
        shown = ", ".join(f"{name}={value:.6f}" for name, value in figures.items() if value is not None)
        line = f"epoch {epoch} done, use time: {time.monotonic() - self._began:.2f}"
        return f"{line}, global metrics: {shown}" if shown else line

    @property
    def _loss(self) -> float | None:
        rows = sum(rows for _, rows in self._losses)
        return sum(loss * rows for loss, rows in self._losses) / rows if rows else None

    @property
    def _auc(self) -> float | None:
        others, clicks = self._bins
        if not others.sum() or not clicks.sum():
            return None
        # Rows of one bin count as ties: half of them are taken to be in the right order.
        below = np.cumsum(others) - others / 2
        return float((clicks * below).sum() / (clicks.sum() * others.sum()))


def _paddlerec_line(*, epoch: int, batch: int, figures: Mapping[str, float]) -> str:
    rate = figures.get(_RATE, 0.0)
    seconds = figures.get("rows", 0) / rate if rate > 0 else 0.0
    named = {"LOSS": _loss_of(figures), "AUC": figures.get("auc"), "BATCH_AUC": figures.get("batch_auc")}
    parts = [f"{name}: {value:.6f}" for name, value in named.items() if value is not None]
    told = f"\t[Train] epoch: {epoch}, batch: {batch}, time_each_interval: {seconds:.2f}s, {', '.join(parts)}"
    now = time.time()
    return f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(now))},{int(now * 1000) % 1000:03d} - INFO: {told}"


def _loss_of(figures: Mapping[str, float]) -> float | None:
    if "rmse" in figures:
        return figures["rmse"] ** 2
    return figures.get("loss", figures.get("logloss"))


def figures_line(figures: Mapping[str, float]) -> str:
    """The figures that are worth a line, of all labels."""
    parts = [f"{name} {value:.5f}" for name, value in figures.items() if _worth_showing(name)]
    parts += [f"{_RATE} {figures[_RATE]:,.0f}"] if _RATE in figures else []
    return "  ".join(parts)


def _worth_showing(name: str) -> bool:
    plain = name.rpartition(".")[2]  # the others' figures have their label in front
    return plain in _SHOWN or (plain not in FIGURES and plain != _RATE)
