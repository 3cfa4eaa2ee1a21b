"""Figures as people read them: one line each for an interval of training, a validation and a test."""

from __future__ import annotations

from collections.abc import Mapping

from clickline.train.evaluation.metric_set import FIGURES

_SHOWN = ("auc", "batch_auc", "logloss", "calibration", "ece", "gauc", "loss")
"""Of the figures that every job has, those that fit on a line. What a job asks for itself is always shown."""
_RATE = "rows_per_second"


def training_line(*, step: int, epoch: int, figures: Mapping[str, float], progress: str = "") -> str:
    """An interval of training; epochs count from 1."""
    return f"epoch {epoch}  step {step:>6}  {figures_line(figures)}" + (f"  {progress}" if progress else "")


def figures_line(figures: Mapping[str, float]) -> str:
    """The figures that are worth a line, of all labels."""
    parts = [f"{name} {value:.5f}" for name, value in figures.items() if _worth_showing(name)]
    parts += [f"{_RATE} {figures[_RATE]:,.0f}"] if _RATE in figures else []
    return "  ".join(parts)


def _worth_showing(name: str) -> bool:
    plain = name.rpartition(".")[2]  # the others' figures have their label in front
    return plain in _SHOWN or (plain not in FIGURES and plain != _RATE)
