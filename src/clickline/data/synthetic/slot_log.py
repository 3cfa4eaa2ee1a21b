"""A log of slot text, as PaddleRec reads it: `click:0 price:12.40 rank:3 1:345 2:678 2:12 …`, some slots several times.

    logit = Σ weight[value], over all values of all slots + 3 · weight[value of 1] · weight[value of 3]
            - ln(price) / 2 - rank / 10 + a constant

Only frequent values have weights, so that nothing hides in values that are seen twice. A slot may be absent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clickline.data.synthetic import log_text
from clickline.data.synthetic.best_score import PARTS, in_parts
from clickline.data.synthetic.log_description import JobPart, LogDescription
from clickline.data.synthetic.random_streams import BLOCK, stream
from clickline.data.synthetic.zipf import Zipf

FREQUENT = 32
"""Values of a slot that have a weight."""
RANKS = 20
LARGEST = 99_999
"""Price, in cents."""
_MODEL, _ROWS = range(2)


@dataclass(frozen=True, slots=True)
class SlotShape:
    """A slot: how many values it has, how many of them a row holds at most, and how likely each of those is there."""

    values: int
    most: int = 1
    present: float = 1.0


SLOTS = {
    "1": SlotShape(50_000),
    "2": SlotShape(2_000, most=4, present=0.5),
    "3": SlotShape(300),
    "4": SlotShape(20),
    "5": SlotShape(10_000, present=0.8),
    "6": SlotShape(5_000, most=6, present=0.4),
    "7": SlotShape(7),
    "8": SlotShape(200_000, most=2, present=0.7),
}
CROSSED = ("1", "3")


@dataclass(frozen=True, slots=True)
class SlotRows:
    """Some rows, columns first."""

    labels: NDArray[np.uint8]
    chances: NDArray[np.int32]
    """[rows]: the true probability in parts of 2^-20."""
    cents: NDArray[np.int64]
    rank: NDArray[np.int64]
    values: list[NDArray[np.int64]]
    """For every slot [most, rows]; -1 where there is none."""


class SlotLog:
    """`rows` rows of one seed."""

    name = "slots"
    suffix = ".txt"
    header = b""

    def __init__(self, *, rows: int, seed: int) -> None:
        self.rows, self.seed = rows, seed
        self.laws = [Zipf(values=s.values, top=max(0.1, 1.5 / s.values), exponent=1.3) for s in SLOTS.values()]
        rng = stream(seed=self.seed, purpose=_MODEL)
        self.weights = [np.append(rng.normal(0, 0.5, size=FREQUENT), 0.0) for _ in SLOTS]

    def block(self, number: int) -> SlotRows:
        """Rows number·BLOCK and following."""
        rng = stream(seed=self.seed, purpose=_ROWS, number=number)
        size = min(BLOCK, self.rows - number * BLOCK)
        values = []
        for law, shape in zip(self.laws, SLOTS.values(), strict=True):
            drawn = law.ranks(rng.random((shape.most, BLOCK)))
            drawn[rng.random((shape.most, BLOCK)) >= shape.present] = -1
            values.append(drawn[:, :size])
        cents = np.clip(np.exp(rng.normal(6.5, 1.0, size=BLOCK)[:size]), 1, LARGEST).astype(np.int64)
        rank = rng.integers(1, RANKS + 1, size=BLOCK)[:size]
        chances = in_parts(self._logits(values, cents, rank))
        labels = (rng.integers(0, PARTS, size=BLOCK)[:size] < chances).astype(np.uint8)
        return SlotRows(labels, chances, cents, rank, values)

    def _logits(
        self, values: list[NDArray[np.int64]], cents: NDArray[np.int64], rank: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        parts = {
            # The entry after the frequent values is 0: that of rare and absent ones.
            name: weights[np.where((drawn < 0) | (drawn >= FREQUENT), FREQUENT, drawn)].sum(axis=0)
            for name, weights, drawn in zip(SLOTS, self.weights, values, strict=True)
        }
        one, other = (parts[name] for name in CROSSED)
        logits: NDArray[np.float64] = sum(parts.values(), -0.5 * (np.log(cents) - 6.5) - rank / 10) + 3 * one * other
        return logits

    def text(self, rows: SlotRows) -> tuple[bytes, NDArray[np.int64]]:
        """The lines, and where each ends."""
        count = len(rows.labels)
        always = np.ones(count, dtype=np.bool_)
        cells = [log_text.constant(b"click:", count), _digit(rows.labels)]
        cells += [log_text.constant(b" price:", count), log_text.decimal(rows.cents // 100, always, width=3)]
        cells += [log_text.constant(b".", count), _digit(rows.cents // 10), _digit(rows.cents)]
        cells += [log_text.constant(b" rank:", count), log_text.decimal(rows.rank, always, width=2)]
        for name, drawn in zip(SLOTS, rows.values, strict=True):
            for values in drawn:
                present = values >= 0
                cells += [log_text.constant(f" {name}:".encode(), count) * present[:, None]]
                cells += [log_text.decimal(values + 1, present, width=6)]
        return log_text.lines(cells)

    def describe(self) -> LogDescription:
        """What else there is to know, for the truth file."""
        return {"options": {}, "vocabulary": {name: shape.values for name, shape in SLOTS.items()}}

    def job(self) -> JobPart:
        """The sections of a job that read this log and learn from it."""
        dense = [{"name": "price"}, {"name": "rank", "normalise": "standard"}]
        return {
            "data": {"format": "slots"},
            "features": {"labels": ["click"], "slots": list(SLOTS), "dense": dense},
            "model": {"name": "deepfm"},
        }


def _digit(numbers: NDArray[Any]) -> log_text.Cells:
    """The last digit of each."""
    return (numbers % 10 + ord("0")).astype(np.uint8)[:, None]
