"""What the best possible model would score on the very labels that were written.

A true probability is a whole number of 2^-20 parts by construction: labels are drawn by comparing whole numbers, and a
table of 2^20 counts holds all that AUC and log loss need. So the score is exact, in memory that no log can outgrow.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

PARTS = 1 << 20


def in_parts(logits: NDArray[np.float64]) -> NDArray[np.int32]:
    """The probabilities of these logits, in parts of 2^-20; never 0 and never 1."""
    # A probability of 0 or 1 would make log loss infinite.
    chances: NDArray[np.int32] = np.clip(np.rint(PARTS / (1 + np.exp(-logits))), 1, PARTS - 1).astype(np.int32)
    return chances


def as_probability(chances: NDArray[np.int32]) -> NDArray[np.float64]:
    probability: NDArray[np.float64] = chances / PARTS
    return probability


class Score:
    """Rows, clicks, AUC and log loss of the true probabilities, gathered piece by piece."""

    def __init__(self) -> None:
        self.shows = np.zeros(PARTS, dtype=np.int64)
        self.clicks = np.zeros(PARTS, dtype=np.int64)

    def add(self, chances: NDArray[np.int32], labels: NDArray[np.uint8]) -> None:
        # `self.shows[chances] += 1` would count a probability once, however many rows have it.
        np.add.at(self.shows, chances, 1)
        np.add.at(self.clicks, chances[labels > 0], 1)

    @property
    def auc(self) -> float | None:
        """None where all labels are alike."""
        clicks, rest = self.clicks.astype(np.float64), (self.shows - self.clicks).astype(np.float64)
        pairs = clicks.sum() * rest.sum()
        # AUC is the share of pairs in which the click has the higher probability; equal ones count half.
        below = np.cumsum(rest) - rest
        return float((clicks * (below + rest / 2)).sum() / pairs) if pairs else None

    @property
    def logloss(self) -> float:
        probability = np.arange(PARTS) / PARTS
        used = self.shows > 0
        clicks, shows, probability = self.clicks[used], self.shows[used], probability[used]
        return float(-(clicks * np.log(probability) + (shows - clicks) * np.log1p(-probability)).sum() / shows.sum())

    def to_dict(self) -> dict[str, object]:
        rows, clicks = int(self.shows.sum()), int(self.clicks.sum())
        if not rows:
            return {"rows": 0, "clicks": 0, "ctr": None, "best_auc": None, "best_logloss": None}
        scores = {"best_auc": self.auc, "best_logloss": self.logloss}
        return {"rows": rows, "clicks": clicks, "ctr": clicks / rows, **scores}
