"""Evaluation: predict a whole data set, then measure it exactly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clickline.data.batch import Batch
from clickline.data.dataset import Dataset
from clickline.train.evaluation.metric_set import MetricSet
from clickline.train.evaluation.metrics import Metrics
from clickline.train.evaluation.value_metrics import ValueMetrics
from clickline.train.learner import Learner

EVALUATION_BATCH = 4096
"""Rows that are predicted at a time."""


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

    def columns(self) -> dict[str, NDArray[Any]]:
        """All rows of each column that there is."""
        parts: dict[str, list[Any]] = {name: getattr(self, name) for name in ("logits", "labels", "weights", "groups")}
        return {name: np.concatenate(arrays) for name, arrays in parts.items() if arrays}


def evaluate(
    learner: Learner, dataset: Dataset, *, metrics: MetricSet, progress: Callable[[int], None] | None = None
) -> dict[str, Metrics | ValueMetrics]:
    """Figures for each label over all rows of a data set. `progress` is called with the number of rows done."""
    return metrics.measure_all(learner.schema.labels, predict_all(learner, dataset, progress=progress).columns())


def predict_all(learner: Learner, dataset: Dataset, *, progress: Callable[[int], None] | None = None) -> Predictions:
    """Predictions of all rows of a data set, in its order."""
    # All logits stay in memory, 4 bytes for each row and label: an exact AUC needs one sort over all of them.
    predictions = Predictions()
    rows = 0
    for batch, _ in dataset.batches(epoch=0, start=None):
        predictions.add(batch, learner.predict(batch))
        rows += len(batch)
        if progress is not None:
            progress(rows)
    return predictions
