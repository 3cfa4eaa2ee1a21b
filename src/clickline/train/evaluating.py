"""Evaluation: predict a whole data set, then measure it exactly."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from clickline.data.pipeline import Dataset
from clickline.train.learner import Learner
from clickline.train.metrics import Metrics, measure


def evaluate(
    learner: Learner, dataset: Dataset, *, progress: Callable[[int], None] | None = None
) -> dict[str, Metrics]:
    """Figures for each label over all rows of a data set. `progress` is told how many rows are done."""
    logits, labels, weights, groups = [], [], [], []
    rows = 0
    for batch, _ in dataset.batches(epoch=0, start=None):
        logits.append(learner.predict(batch))
        labels.append(batch.labels)
        if batch.weights is not None:
            weights.append(batch.weights)
        if batch.groups is not None:
            groups.append(batch.groups)
        rows += len(batch)
        if progress is not None:
            progress(rows)
    predicted, wanted = np.concatenate(logits), np.concatenate(labels)
    return {
        name: measure(
            predicted[:, column],
            wanted[:, column],
            weights=np.concatenate(weights) if weights else None,
            groups=np.concatenate(groups) if groups else None,
        )
        for column, name in enumerate(learner.schema.labels[: predicted.shape[1]])
    }


def flat(metrics: dict[str, Metrics]) -> dict[str, float]:
    """Figures of all labels in one mapping: the first label's by plain names, the others' with theirs in front."""
    out: dict[str, float] = {}
    for place, (label, figures) in enumerate(metrics.items()):
        out.update({name if place == 0 else f"{label}.{name}": value for name, value in figures.to_dict().items()})
    return out
