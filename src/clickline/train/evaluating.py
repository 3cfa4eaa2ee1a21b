"""Evaluation: predict a whole data set, then measure it exactly."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from clickline.data.batch import Batch
from clickline.data.pipeline import Dataset
from clickline.train.learner import Learner
from clickline.train.metrics import Metrics, measure


@dataclass
class Predictions:
    """Logits and what came true, batch by batch."""

    logits: list[NDArray[np.float32]] = field(default_factory=list)
    """[rows, labels] each"""
    labels: list[NDArray[np.float32]] = field(default_factory=list)
    weights: list[NDArray[np.float32]] = field(default_factory=list)
    groups: list[NDArray[np.uint64]] = field(default_factory=list)

    def add(self, batch: Batch, logits: NDArray[np.float32]) -> None:
        self.logits.append(logits)
        self.labels.append(batch.labels)
        if batch.weights is not None:
            self.weights.append(batch.weights)
        if batch.groups is not None:
            self.groups.append(batch.groups)

    def measure(self, names: Iterable[str]) -> dict[str, Metrics]:
        """Figures for each label the model predicts, over all rows."""
        predicted, wanted = np.concatenate(self.logits), np.concatenate(self.labels)
        return {
            name: measure(
                predicted[:, column],
                wanted[:, column],
                weights=np.concatenate(self.weights) if self.weights else None,
                groups=np.concatenate(self.groups) if self.groups else None,
            )
            for name, column in zip(names, range(predicted.shape[1]), strict=False)
        }


def evaluate(
    learner: Learner, dataset: Dataset, *, progress: Callable[[int], None] | None = None
) -> dict[str, Metrics]:
    """Figures for each label over all rows of a data set. `progress` is told how many rows are done."""
    predictions = Predictions()
    rows = 0
    for batch, _ in dataset.batches(epoch=0, start=None):
        predictions.add(batch, learner.predict(batch))
        rows += len(batch)
        if progress is not None:
            progress(rows)
    return predictions.measure(learner.schema.labels)


def flat(metrics: dict[str, Metrics]) -> dict[str, float]:
    """Figures of all labels in one mapping: the first label's by plain names, the others' with theirs in front."""
    out: dict[str, float] = {}
    for place, (label, figures) in enumerate(metrics.items()):
        out.update({name if place == 0 else f"{label}.{name}": value for name, value in figures.to_dict().items()})
    return out
