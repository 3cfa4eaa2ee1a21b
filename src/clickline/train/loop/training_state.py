"""The state of a run: everything but the learner that decides how it continues.

All of it is in every checkpoint, so that a run that is killed and resumed ends with the same bits as one that was not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from clickline.config.training import Train
from clickline.data.position import Position
from clickline.train.checkpoints.checkpoint_figures import CheckpointFigures
from clickline.train.early_stopping import better, score
from clickline.train.monitoring.metric_interval import Interval
from clickline.train.monitoring.piece_progress import PieceProgress


@dataclass(frozen=True)
class RunPosition:
    """How far a run has come, between two steps. A checkpoint's manifest has it as `standing`."""

    epoch: int = 0
    """Epochs that are complete."""
    position: Position | None = None
    """Where one process resumes reading; None between epochs, and where the data is read in pieces."""
    rows: int = 0
    epoch_rows: int | None = None
    """Rows of a whole epoch, known once one has been read; progress is measured by it from then on."""
    best_score: float | None = None
    """The best validation, by the metric of early stopping, turned so that larger is better."""
    best_metric: str = "auc"
    """The metric of `best_score`."""
    best_step: int | None = None
    stale_epochs: int = 0
    """Validations since the best one."""
    validation_due: bool = False
    """Whether an epoch is complete but not validated yet."""
    first_step: int = 0
    """The step at which the run began: 0, or that of the checkpoint of a warm start."""
    warm: str | None = None
    """The checkpoint of the warm start."""

    def validated(self, settings: Train, figures: Mapping[str, float], *, step: int) -> RunPosition:
        """The position after a validation. `stale_epochs` is 0 if it was the best so far."""
        metric = settings.stopping_metric
        best = self.best_score if self.best_metric == metric else None  # scores of two metrics cannot be compared
        if not better(settings, figures, best=best):
            return replace(self, validation_due=False, stale_epochs=self.stale_epochs + 1)
        return replace(
            self,
            validation_due=False,
            best_score=score(settings, figures),
            best_metric=metric,
            best_step=step,
            stale_epochs=0,
        )

    def to_dict(self) -> dict[str, object]:
        """As a manifest holds it."""
        return {**self.__dict__, "position": None if self.position is None else self.position.to_dict()}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> RunPosition:
        """From a checkpoint of any strategy; keys that only other strategies need are ignored."""
        known = {name: value for name, value in saved.items() if name in cls.__dataclass_fields__}
        position = saved.get("position")
        return cls(**{**known, "position": None if position is None else Position.from_dict(position)})


@dataclass
class TrainingState:
    """What changes while a run trains. The parts of a run share one."""

    position: RunPosition = RunPosition()
    pieces: PieceProgress | None = None
    """How far this epoch has come, if it is read in pieces."""
    interval: Interval = field(default_factory=Interval)
    """The steps since the last line of metrics."""
    validation: tuple[int, CheckpointFigures] | None = None
    """The step of the last validation in this process, and its figures."""
    own_rows: int = 0
    """Rows that this rank itself has trained since it was started, where there are several."""

    @property
    def within_epoch(self) -> bool:
        """Whether part of the current epoch is done."""
        return self.position.position is not None or self.pieces is not None

    @property
    def epoch(self) -> int:
        """The epoch under way, or the last one, counted from 1; 0 before the first step."""
        return self.position.epoch + self.within_epoch

    @property
    def validation_figures(self) -> dict[str, float]:
        """Figures of the last validation in this process, whichever checkpoint it was of."""
        return {} if self.validation is None else self.validation[1].figures

    def advance(self, *, rows: int, position: Position | None = None) -> None:
        """Count the rows of a step; `position` is where reading resumes after it."""
        self.position = replace(self.position, rows=self.position.rows + rows, position=position)

    def end_epoch(self, *, rows: int | None, validation_due: bool) -> None:
        """Begin the next epoch. `rows` is the number of rows of the one that ends, if known."""
        self.pieces = None
        self.position = replace(
            self.position,
            epoch=self.position.epoch + 1,
            position=None,
            epoch_rows=rows,
            validation_due=validation_due,
        )

    def share_by_rows(self) -> float | None:
        """The share of the epoch that is done, if the number of its rows is known."""
        whole = self.position.epoch_rows
        if not whole:
            return None
        # Earlier epochs are taken to have had as many rows; files that have grown since would give more than 1.
        return min((self.position.rows - self.position.epoch * whole) / whole, 1.0)
