"""Traffic splits and shadows: which of several models answers a request, by weight, and always the same one for the
same key if the split is sticky.

The draw by key is a hash of split and key, so every worker and every restart draws alike, two splits draw
independently of each other, and a changed weight moves only as many keys as it must (variants keep their order).
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from clickline._native import xxh64
from clickline.serve.serve_settings import SplitRule


@dataclass(frozen=True, slots=True)
class Variant:
    """A model that gets a share of the requests of a split."""

    model: str
    weight: float
    tag: str


class Split:
    """A split of traffic: draws the variant that answers a request."""

    def __init__(self, name: str, variants: Sequence[Variant], *, sticky: bool = False) -> None:
        self.name, self.variants, self.sticky = name, tuple(variants), sticky
        sums = list(accumulate(variant.weight for variant in variants))
        # Without the last bound, 1: a hash whose share rounds up to 1.0 still falls to the last variant.
        self._bounds = [bound / sums[-1] for bound in sums[:-1]]
        self._seed = xxh64(name.encode())

    @classmethod
    def of(cls, name: str, rule: SplitRule) -> Split:
        variants = [Variant(v.model, v.weight, v.tag or v.model) for v in rule.variants]
        return cls(name, variants, sticky=rule.sticky)

    def draw(self, key: str | int | None = None) -> Variant:
        """The variant of a key; without a key, or if the split is not sticky, any by its weight."""
        share = random.random() if key is None or not self.sticky else self._share(key)
        return self.variants[bisect_right(self._bounds, share)]

    def _share(self, key: str | int) -> float:
        return xxh64(str(key).encode("utf-8", "surrogatepass"), self._seed) / 2.0**64


@dataclass(frozen=True, slots=True)
class Shadow:
    """Another model that is given a share of the requests as well."""

    model: str
    share: float

    def draw(self) -> bool:
        return self.share >= 1 or random.random() < self.share
