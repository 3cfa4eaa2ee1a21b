"""How good predictions are: exact AUC, logloss, calibration, GAUC, precision, recall and the ratio of ordered pairs.

What a job asks for beside these is in metric_set.py. Everything here is exact over the predictions it is given: no
sampling, ties counted as halves. Sums are in double precision and in a fixed order, so the same predictions give the
same figures, bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields

import numpy as np
from numpy.typing import NDArray

from clickline.config.training import Loss
from clickline.train.evaluation.calibration import calibration_bins, expected_calibration_error

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
    """Mean label."""
    positives_per_negative: float | None = None
    """Clicks for each row without one."""
    pos_neg_ratio: float | None = None
    """Pairs of a click and a row without one that are ordered right, for each pair that is not: ties are not."""
    precision: float | None = None
    """Clicks among rows predicted at the threshold or above."""
    recall: float | None = None
    """Share of the clicks that were predicted at the threshold or above."""
    ece: float | None = None
    """Expected calibration error: mean distance of prediction and outcome over bins."""
    gauc: float | None = None
    more: dict[str, float] = field(default_factory=dict)
    """What the job asks for beside these: recall@k and metrics of the user's own."""

    def to_dict(self) -> dict[str, float]:
        """All figures that are defined, by name."""
        named = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "more"}
        return {name: value for name, value in (named | self.more).items() if value is not None}


def sigmoid(logits: Floats) -> NDArray[np.float64]:
    """Probability of a logit, in double precision and without overflow."""
    x = logits.astype(np.float64)
    # The exponent is never positive, so exp underflows to 0 at worst and never overflows.
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + small), small / (1 + small))


def predictions_of(logits: Floats, *, loss: Loss) -> NDArray[np.float64]:
    """What a model predicts, in double precision: the probability of its logits, or its values as they are."""
    return logits.astype(np.float64) if loss == "squared" else sigmoid(logits)


@dataclass(frozen=True)
class Pairs:
    """All pairs of a row with a click and a row without one, by weight."""

    right: float
    """Those in which the click is scored higher."""
    tied: float
    total: float

    @property
    def auc(self) -> float | None:
        return None if self.total == 0 else (self.right + self.tied / 2) / self.total

    @property
    def ratio(self) -> float | None:
        wrong = self.total - self.right
        return None if wrong <= self.total * 1e-12 else self.right / wrong  # a smaller rest is rounding


def auc(scores: Floats, labels: Floats, weights: Floats | None = None) -> float | None:
    """Chance that a random positive row is scored above a random negative one; ties count half."""
    return pairs(scores, labels, weights).auc


def pairs(
    scores: Floats, labels: Floats, weights: Floats | None = None, *, order: NDArray[np.intp] | None = None
) -> Pairs:
    """How scores order the rows. `order` sorts the scores, if known already."""
    order = np.argsort(scores, kind="stable") if order is None else order
    ranked = scores[order]
    positive = labels[order] > 0.5
    weight = np.ones(len(ranked)) if weights is None else weights[order].astype(np.float64)
    # Rows of equal score form a tie. Per tie: the weight of its positive rows, and of its negative ones.
    ends = np.flatnonzero(np.append(ranked[1:] != ranked[:-1], True)) if len(ranked) else np.zeros(0, np.int64)
    positives = np.diff(np.cumsum(np.where(positive, weight, 0.0))[ends], prepend=0.0)
    negatives = np.diff(np.cumsum(np.where(positive, 0.0, weight))[ends], prepend=0.0)
    # Every positive row of a tie is right about the negative rows of all ties below it.
    below = np.cumsum(negatives) - negatives
    return Pairs(
        right=float((positives * below).sum()),
        tied=float((positives * negatives).sum()),
        total=float(positives.sum() * negatives.sum()),
    )


def gauc(scores: Floats, labels: Floats, groups: NDArray[np.uint64]) -> float | None:
    """AUC within each group that has both classes, averaged with the group's rows as weights."""
    # All groups at once, without a loop in Python: there may be as many groups as users.
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
    # Ranks begin at 1 in every group: positions in the whole array, less the start of the group.
    rank = (first + (size + 1) / 2)[tie] - starts[index]
    # A group with one class only has no pair to order, and no AUC.
    n_pos = np.bincount(index, positive, len(starts))
    n_neg = rows - n_pos
    both = (n_pos > 0) & (n_neg > 0)
    if not both.any():
        return None
    # Mann-Whitney: AUC from the sum of the positive rows' ranks.
    rank_sum = np.bincount(index, np.where(positive, rank, 0.0), len(starts))
    area = (rank_sum[both] - n_pos[both] * (n_pos[both] + 1) / 2) / (n_pos[both] * n_neg[both])
    return float((area * rows[both]).sum() / rows[both].sum())


def measure(
    logits: Floats,
    labels: Floats,
    *,
    weights: Floats | None = None,
    groups: NDArray[np.uint64] | None = None,
    threshold: float = 0.5,
    bins: int = 10,
) -> Metrics:
    """All figures of one label's predictions. `threshold` is a probability, `bins` are those of the ECE."""
    rows = len(logits)
    if rows == 0:
        return Metrics(rows=0, logloss=None, auc=None, calibration=None, ctr=None)
    x = logits.astype(np.float64)
    y = labels.astype(np.float64)
    weight = np.ones(rows) if weights is None else weights.astype(np.float64)
    total = weight.sum()
    if total == 0:
        return Metrics(rows=rows, logloss=None, auc=None, calibration=None, ctr=None)
    # Log loss from logits without computing a probability, whose logarithm could be infinite.
    loss = np.maximum(x, 0) - x * y + np.log1p(np.exp(-np.abs(x)))
    probabilities = sigmoid(x)
    predicted, observed = float((probabilities * weight).sum()), float((y * weight).sum())
    taken = x >= np.log(threshold / (1 - threshold))
    chosen = weight[taken].sum()
    hit = weight[taken & (y > 0.5)].sum()
    # Sorting is the expensive part: AUC and calibration share it.
    # The sigmoid is monotonic, so the order of logits sorts the probabilities as well.
    order = np.argsort(x, kind="stable")
    ordered = pairs(x, y, weights, order=order)
    return Metrics(
        rows=rows,
        logloss=float((loss * weight).sum() / total),
        auc=ordered.auc,
        calibration=predicted / observed if observed > 0 else None,
        ctr=observed / float(total),
        positives_per_negative=observed / float(total - observed) if total > observed else None,
        pos_neg_ratio=ordered.ratio,
        precision=float(hit / chosen) if chosen > 0 else None,
        recall=float(hit / observed) if observed > 0 else None,
        ece=expected_calibration_error(calibration_bins(probabilities, y, weight, bins=bins, order=order)),
        gauc=None if groups is None else gauc(x, y, groups),
    )
