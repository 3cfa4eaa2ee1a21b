"""Statistics for dense features that are normalised by them: mean and deviation, or lowest and highest value.

For labels that are numbers, their mean, which a model starts from. Taken once, over the first rows of the training data
and over present values only, then kept in the schema: training, evaluation and serving all use the same numbers.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from clickline.config.data import Data
from clickline.config.features import Dense, Features
from clickline.data.dataset import Dataset
from clickline.data.schema import Schema
from clickline.errors import DataError

_BATCH_ROWS = 4096
_DEFAULT_ROWS = Features().fit_rows


def fit(data: Data, schema: Schema, paths: list[str], *, rows: int = _DEFAULT_ROWS) -> Schema:
    """`schema` with what it lacks fitted on the first `rows` rows (features.fit_rows); as it is if it lacks nothing."""
    if not schema.needs_fit:
        return schema
    rows_of = Dataset(
        data=data, schema=schema.unnormalised(), paths=paths, batch_size=min(_BATCH_ROWS, rows), seed=0, shuffle=False
    )
    totals, labels = _Totals(schema.dense_width), _LabelMeans(len(schema.labels))
    left = rows
    # The loop ends early as a rule: closing stops the reading threads now and not at garbage collection.
    with closing(rows_of.batches(epoch=0)) as batches:
        for batch, _ in batches:
            totals.add(batch.dense[:left])
            labels.add(batch.labels[:left], None if batch.weights is None else batch.weights[:left])
            left -= len(batch)
            if left <= 0:
                break
    stats, first = {}, 0
    for dense in schema.dense:
        if dense.name in schema.unfitted:
            stats[dense.name] = totals.of(dense, slice(first, first + dense.size))
        first += dense.size
    fitted = schema.fitted(stats)
    return replace(fitted, label_means=labels.means()) if schema.lacks_means else fitted


class _LabelMeans:
    """Running means of labels, by weight."""

    def __init__(self, labels: int) -> None:
        self._sums, self._weight = np.zeros(labels), 0.0

    def add(self, labels: NDArray[np.float32], weights: NDArray[np.float32] | None) -> None:
        weight = np.ones(len(labels)) if weights is None else weights.astype(np.float64)
        self._sums += (labels.astype(np.float64) * weight[:, None]).sum(axis=0)
        self._weight += float(weight.sum())

    def means(self) -> tuple[float, ...]:
        """0 where there are no rows, or where none of them has a weight."""
        return tuple(float(total / self._weight) if self._weight else 0.0 for total in self._sums)


class _Totals:
    """Running statistics of every dense number. Means are merged, not sums, so that large values lose nothing."""

    def __init__(self, width: int) -> None:
        self._count = np.zeros(width)
        self._mean = np.zeros(width)
        self._squares = np.zeros(width)  # squared distances from the mean
        self._low = np.full(width, np.inf)
        self._high = np.full(width, -np.inf)

    def add(self, values: NDArray[np.float32]) -> None:
        present = ~np.isnan(values)
        count = present.sum(axis=0)
        # A NaN would make all sums of its column NaN: missing values add 0 and are left out of the count.
        wide = np.where(present, values, 0).astype(np.float64)
        mean = wide.sum(axis=0) / np.maximum(count, 1)
        squares = (np.where(present, wide - mean, 0) ** 2).sum(axis=0)
        # Chan's update: merges the mean and the squared distances of two parts of the data without summing squares.
        both = self._count + count
        gap = mean - self._mean
        self._squares += squares + gap**2 * self._count * count / np.maximum(both, 1)
        self._mean += gap * count / np.maximum(both, 1)
        self._count = both
        self._low = np.minimum(self._low, np.where(present, values, np.inf).min(axis=0))
        self._high = np.maximum(self._high, np.where(present, values, -np.inf).max(axis=0))

    def of(self, dense: Dense, where: slice) -> tuple[float, float]:
        """Center and spread of a feature, over all its numbers. A constant one gets the spread 1."""
        count = self._count[where].sum()
        if dense.normalise not in ("standard", "minmax"):
            return 0.0, 1.0
        if count == 0:
            raise DataError(
                f"no value of {dense.name!r} in the rows that {dense.normalise} is fitted on; raise features.fit_rows, "
                "give its center and spread in the job, or leave it out"
            )
        if dense.normalise == "minmax":
            low, high = float(self._low[where].min()), float(self._high[where].max())
            return low, high - low or 1.0
        mean = float((self._mean[where] * self._count[where]).sum() / count)
        # A feature of several numbers has one mean: the variance is that within each number plus that between them.
        between = (self._count[where] * (self._mean[where] - mean) ** 2).sum()
        spread = float(np.sqrt((self._squares[where].sum() + between) / count))
        return mean, spread or 1.0
