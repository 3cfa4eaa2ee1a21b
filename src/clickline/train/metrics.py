"""How good predictions are: exact AUC, logloss, calibration, GAUC, precision and recall.

Everything here is exact over the predictions it is given: no buckets, no sampling, ties counted as halves. Sums are in
double precision and in a fixed order, so the same predictions give the same figures, bit for bit.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32] | NDArray[np.float64]


@dataclass(frozen=True)
class Metrics:
    """Figures over some rows; None where the rows do not define it (AUC of one class only, say)."""

    rows: int
    logloss: float | None
    auc: float | None
    calibration: float | None
    """Mean prediction over mean label: 1 is right, 2 predicts twice the clicks there are."""
    ctr: float | None
    precision: float | None = None
    """Clicks among rows predicted at 0.5 or more."""
    recall: float | None = None
    """Share of the clicks that were predicted at 0.5 or more."""
    gauc: float | None = None

    def to_dict(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None}


def sigmoid(logits: Floats) -> NDArray[np.float64]:
    """Probability of a logit, in double precision and without overflow."""
    x = logits.astype(np.float64)
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + small), small / (1 + small))


def auc(scores: Floats, labels: Floats, weights: Floats | None = None) -> float | None:
    """Chance that a random positive row is scored above a random negative one; ties count half."""
    order = np.argsort(scores, kind="stable")
    ranked = scores[order]
    positive = labels[order] > 0.5
    weight = np.ones(len(ranked)) if weights is None else weights[order].astype(np.float64)
    ends = np.flatnonzero(np.append(ranked[1:] != ranked[:-1], True)) if len(ranked) else np.zeros(0, np.int64)
    positives = np.diff(np.cumsum(np.where(positive, weight, 0.0))[ends], prepend=0.0)
    negatives = np.diff(np.cumsum(np.where(positive, 0.0, weight))[ends], prepend=0.0)
    total = positives.sum() * negatives.sum()
    if total == 0:
        return None
    below = np.cumsum(negatives) - negatives
    return float((positives * (below + negatives / 2)).sum() / total)


def gauc(scores: Floats, labels: Floats, groups: NDArray[np.uint64]) -> float | None:
    """AUC within each group that has both classes, averaged with the group's rows as weights."""
    order = np.lexsort((scores, groups))
    group, score, positive = groups[order], scores[order], labels[order] > 0.5
    starts = np.flatnonzero(np.append(True, group[1:] != group[:-1])) if len(group) else np.zeros(0, np.int64)
    index = np.cumsum(np.append(True, group[1:] != group[:-1])) - 1
    rows = np.diff(np.append(starts, len(group)))
    # ranks within the group, ties sharing their mean rank
    new_tie = np.append(True, (score[1:] != score[:-1]) | (group[1:] != group[:-1]))
    tie = np.cumsum(new_tie) - 1
    first = np.flatnonzero(new_tie)
    size = np.diff(np.append(first, len(group)))
    rank = (first + (size + 1) / 2)[tie] - starts[index]
    n_pos = np.bincount(index, positive, len(starts))
    n_neg = rows - n_pos
    both = (n_pos > 0) & (n_neg > 0)
    if not both.any():
        return None
    rank_sum = np.bincount(index, np.where(positive, rank, 0.0), len(starts))
    area = (rank_sum[both] - n_pos[both] * (n_pos[both] + 1) / 2) / (n_pos[both] * n_neg[both])
    return float((area * rows[both]).sum() / rows[both].sum())


def measure(
    logits: Floats,
    labels: Floats,
    *,
    weights: Floats | None = None,
    groups: NDArray[np.uint64] | None = None,
) -> Metrics:
    """All figures of one label's predictions."""
    rows = len(logits)
    if rows == 0:
        return Metrics(rows=0, logloss=None, auc=None, calibration=None, ctr=None)
    x = logits.astype(np.float64)
    y = labels.astype(np.float64)
    weight = np.ones(rows) if weights is None else weights.astype(np.float64)
    total = weight.sum()
    if total == 0:
        return Metrics(rows=rows, logloss=None, auc=None, calibration=None, ctr=None)
    loss = np.maximum(x, 0) - x * y + np.log1p(np.exp(-np.abs(x)))
    predicted, observed = float((sigmoid(x) * weight).sum()), float((y * weight).sum())
    chosen = weight[(x >= 0)].sum()
    hit = weight[(x >= 0) & (y > 0.5)].sum()
    return Metrics(
        rows=rows,
        logloss=float((loss * weight).sum() / total),
        auc=auc(x, y, weights),
        calibration=predicted / observed if observed > 0 else None,
        ctr=observed / float(total),
        precision=float(hit / chosen) if chosen > 0 else None,
        recall=float(hit / observed) if observed > 0 else None,
        gauc=None if groups is None else gauc(x, y, groups),
    )
