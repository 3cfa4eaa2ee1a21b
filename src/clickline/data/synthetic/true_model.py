"""The true model of a synthetic log: which values move the logit, and by how much.

    logit = bias + linear · Σ weight[value] + crossed · (Σ over crossing slots ± weight[value])² + numbers + drift

The square is what a linear model cannot express: it multiplies weights of different slots. Only frequent values have
weights. Rare ones have none, so that the best possible AUC can be reached from a few hundred thousand rows: nothing
hides in values that are seen twice. Weights average to zero over what is drawn, and each part is scaled on a sample,
so that every seed gives a problem of the same difficulty.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clickline.data.synthetic.zipf import Zipf

FREQUENT = 0.015
"""Share of the rows that a value needs in order to have a weight."""
MOST = 8
"""Values of one slot that have weights, at most."""


@dataclass(frozen=True, slots=True)
class Strength:
    """Standard deviation that each part of the logit has."""

    linear: float = 1.2
    crossed: float = 0.4
    numbers: float = 0.6


class Effects:
    def __init__(
        self, *, laws: Sequence[Zipf], missing: Sequence[float], crossing: Sequence[int], rng: np.random.Generator
    ) -> None:
        """`missing`: share of rows without a value, by slot."""
        self.heads = [max(2, int((law.shares(MOST) >= FREQUENT).sum())) for law in laws]
        self.weights = [
            _centred(rng.standard_normal(head), law.shares(head), missing=share)
            for law, head, share in zip(laws, self.heads, missing, strict=True)
        ]
        self.crossing = list(crossing)
        self.linear, self.crossed = 1.0, 1.0

    def scale(self, values: NDArray[np.int64], *, linear: float, crossed: float) -> None:
        """Give both parts these standard deviations over `values`."""
        total, apart = self._sums(values)
        self.linear, self.crossed = linear / float(total.std()), crossed / float((apart**2).std())

    def logits(self, values: NDArray[np.int64]) -> NDArray[np.float64]:
        """Both parts, for `values` [slots, rows]; -1 is missing."""
        total, apart = self._sums(values)
        return self.linear * total + self.crossed * apart**2

    def _sums(self, values: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The weights summed over all slots, and over those that cross, with alternating sign."""
        total, apart = np.zeros(values.shape[1]), np.zeros(values.shape[1])
        for slot, head in enumerate(self.heads):
            weights = self.weights[slot][_places(values[slot], head)]
            total += weights
            if slot in self.crossing:
                apart += weights * (-1) ** self.crossing.index(slot)
        return total, apart


def _places(values: NDArray[np.int64], head: int) -> NDArray[np.int64]:
    """Where a value's effect stands: its own place, then one place for all rare values, then one for missing."""
    return np.where(values < 0, head + 1, np.minimum(values, head))


def _centred(weights: NDArray[np.float64], shares: NDArray[np.float64], *, missing: float) -> NDArray[np.float64]:
    """Weights of frequent values, of rare ones (zero) and of missing (zero if nothing ever is), with mean zero."""
    shares = np.append(shares * (1 - missing), [0.0, missing])
    active = np.append(np.ones(len(weights)), [0.0, float(missing > 0)])
    absent = -weights[0] / 2  # against the most frequent value, so that having none tells something
    weights = np.append(weights, [0.0, absent]) * active
    # The mean is taken off active weights only: rare values must keep a weight of exactly 0.
    mean = (shares * weights).sum() / (shares * active).sum()
    return (weights - mean) * active  # type: ignore[no-any-return]
