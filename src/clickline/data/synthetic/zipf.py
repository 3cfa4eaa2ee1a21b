"""How often each value of a slot turns up: few values very often, most of them once.

The law is Zipf-Mandelbrot, share(rank) ~ (rank + offset)^-exponent, cut off at the number of values. It is integrated
rather than summed, so that a rank is drawn by one power per row, whatever the size of the vocabulary. Popularity
drifts: as time goes on, values trade places with others of the same octave of ranks, which keeps the law and moves the
values.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

DRIFT = 0.3
"""Share of draws that, at the end of the log, go to the value that has traded places."""


@dataclass(frozen=True)
class Zipf:
    values: int
    """Size of the vocabulary."""
    top: float
    """Share of the most frequent value."""
    exponent: float
    """How fast shares fall with rank; anything but 1."""
    tail: float = 0.0
    """Share of draws spread evenly over all values: the values that are seen once."""
    offset: float = field(init=False)
    """Solved so that rank 0 has the share `top`."""

    def __post_init__(self) -> None:
        # The top share falls as the offset grows, so bisection finds it; on a logarithmic scale, as offsets differ by
        # orders of magnitude.
        low, high = -12.0, 12.0
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (middle, high) if self._top_with(10.0**middle) * (1 - self.tail) > self.top else (low, middle)
        object.__setattr__(self, "offset", 10.0**low)

    def _top_with(self, offset: float) -> float:
        power = 1 - self.exponent
        first, second, last = offset**power, (1 + offset) ** power, (self.values + offset) ** power
        return float((second - first) / (last - first))

    def ranks(self, uniform: NDArray[np.float64]) -> NDArray[np.int64]:
        """Ranks for numbers drawn uniformly from [0, 1)."""
        power = 1 - self.exponent
        first, last = self.offset**power, (self.values + self.offset) ** power
        # The inverse of the integrated law, for numbers above `tail`; those below it are spread evenly.
        places = (first + np.maximum(uniform - self.tail, 0) / (1 - self.tail) * (last - first)) ** (1 / power)
        places -= self.offset
        if self.tail:
            places = np.where(uniform < self.tail, uniform / self.tail * self.values, places)
        ranks: NDArray[np.int64] = np.clip(places, 0, self.values - 1).astype(np.int64)
        return ranks

    def shares(self, count: int) -> NDArray[np.float64]:
        """Shares of the `count` most frequent values, at the start of the log."""
        power = 1 - self.exponent
        edges = (np.arange(min(count, self.values) + 1) + self.offset) ** power
        whole = (self.values + self.offset) ** power - edges[0]
        shares: NDArray[np.float64] = np.diff(edges) / whole * (1 - self.tail) + self.tail / self.values
        return shares

    def drifted(self, ranks: NDArray[np.int64], traded: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Values by popularity at the start of the log: a rank's own, or where `traded` that of its partner."""
        octave = np.frexp((ranks + 1).astype(np.float64))[1]  # ranks + 1 lies in [2^(octave-1), 2^octave)
        # Flipping the second-highest bit of rank + 1 pairs ranks within an octave; rank 0 has only itself.
        partner = ((ranks + 1) ^ ((1 << octave.astype(np.int64)) >> 2)) - 1
        return np.where(traded & (partner < self.values), partner, ranks)
