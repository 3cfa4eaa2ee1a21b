"""A log in the raw Criteo format, drawn from a known model.

Label, thirteen integers, twenty-six categories of eight hex digits, separated by tabs, empty where missing. Rows are
drawn in blocks of fixed size, each from its own random stream, so that any block can be made at any time and in any
order, and comes out the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clickline.data.synthetic import log_text
from clickline.data.synthetic.best_score import PARTS, as_probability, in_parts
from clickline.data.synthetic.criteo_shape import ABSENCES, CATEGORIES, CROSSING, INTEGERS, category_laws
from clickline.data.synthetic.log_description import JobPart, LogDescription
from clickline.data.synthetic.random_streams import BLOCK, stream
from clickline.data.synthetic.true_model import Effects, Strength
from clickline.data.synthetic.zipf import DRIFT

SAMPLE = 32_768
"""Rows on which the true model is scaled."""
LEVELS = 1 << 16
"""Steps of an integer column's quantiles."""
LARGEST = 9_999_999
DAYS = 7
_MODEL, _SAMPLE, _ROWS = range(3)


@dataclass(frozen=True, slots=True)
class CriteoRows:
    """Some rows, columns first."""

    labels: NDArray[np.uint8]
    """[rows]"""
    probability: NDArray[np.float64]
    """[rows]: the true one."""
    integers: NDArray[np.int64]
    """[13, rows]; see `has_integer`."""
    has_integer: NDArray[np.bool_]
    """[13, rows]"""
    values: NDArray[np.int64]
    """[26, rows]: place of the value in its slot's vocabulary, by popularity; -1 where missing."""
    chances: NDArray[np.int32]
    """[rows]: the probability in parts of 2^-20."""


class CriteoLog:
    """`rows` rows of one seed; `ids` is about the size of all vocabularies together."""

    name = "criteo"
    suffix = ".tsv"
    header = b""

    def __init__(
        self, *, rows: int, seed: int, ids: int = 5_500_000, ctr: float = 0.25, strength: Strength = Strength()
    ) -> None:
        self.rows, self.seed, self.ids, self.ctr = rows, seed, ids, ctr
        self.laws = category_laws(ids)
        rng = stream(seed=self.seed, purpose=_MODEL)
        self.salts = rng.integers(0, 1 << 32, size=len(CATEGORIES), dtype=np.uint32)
        absent = [ABSENCES.get(category.absence, 0.0) for category in CATEGORIES]
        self.effects = Effects(laws=self.laws, missing=absent, crossing=CROSSING, rng=rng)
        self.quantiles, self.curves = _integer_tables(rng)
        self.bias = 0.0
        self._calibrate(strength)

    def _calibrate(self, strength: Strength) -> None:
        """Give each part of the logit its strength, then set the bias so that the click rate is the one asked for."""
        time = (np.arange(SAMPLE) + 0.5) / SAMPLE
        values, levels = self._draw(stream(seed=self.seed, purpose=_SAMPLE), time)
        self.effects.scale(values, linear=strength.linear, crossed=strength.crossed)
        self.curves *= strength.numbers / self._numbers(levels).std()
        logits = self._logits(values, levels, time)
        low, high = -20.0, 20.0
        # 60 halvings of an interval of 40 reach the resolution of float64.
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if (1 / (1 + np.exp(-logits - middle))).mean() < self.ctr else (low, middle)
        self.bias = low

    def _draw(self, rng: np.random.Generator, time: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Values of the categories [26, rows] and quantiles of the integers [13, rows]; -1 where missing."""
        rows = len(time)
        absent = {name: rng.random(rows, dtype=np.float32) < share for name, share in ABSENCES.items()}
        values = np.empty((len(CATEGORIES), rows), dtype=np.int64)
        for slot, (law, category) in enumerate(zip(self.laws, CATEGORIES, strict=True)):
            ranks = law.ranks(rng.random(rows))
            values[slot] = law.drifted(ranks, rng.random(rows, dtype=np.float32) < DRIFT * time)
            if category.absence:
                values[slot][absent[category.absence]] = -1
        levels = rng.integers(0, LEVELS, size=(len(INTEGERS), rows), dtype=np.uint16).astype(np.int64)
        for column, integer in enumerate(INTEGERS):
            if integer.absence:
                levels[column][absent[integer.absence]] = -1
        return values, levels

    def _numbers(self, levels: NDArray[np.int64]) -> NDArray[np.float64]:
        total = np.zeros(levels.shape[1])
        for column, curve in enumerate(self.curves):
            # Level -1, missing, picks the last entry of the curve, which is the effect of a missing value.
            total += curve[levels[column]]
        return total

    def _logits(
        self, values: NDArray[np.int64], levels: NDArray[np.int64], time: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        drift = 0.2 * (time - 0.5) + 0.05 * np.sin(2 * np.pi * DAYS * time)
        return self.bias + self.effects.logits(values) + self._numbers(levels) + drift

    def block(self, number: int) -> CriteoRows:
        """Rows number·BLOCK and following."""
        time = np.arange(number * BLOCK, min((number + 1) * BLOCK, self.rows)) / self.rows
        full = np.append(time, np.zeros(BLOCK - len(time)))  # the last block draws as much as the others
        rng = stream(seed=self.seed, purpose=_ROWS, number=number)
        values, levels = (drawn[:, : len(time)] for drawn in self._draw(rng, full))
        chances = in_parts(self._logits(values, levels, time))
        labels = (rng.integers(0, PARTS, size=BLOCK)[: len(time)] < chances).astype(np.uint8)
        # Where the level is -1 this is an arbitrary number; `has_integer` excludes it.
        integers = np.stack([table[column] for table, column in zip(self.quantiles, levels, strict=True)])
        return CriteoRows(labels, as_probability(chances), integers, levels >= 0, values, chances)

    def names(self, slot: int, values: NDArray[np.int64]) -> NDArray[np.uint32]:
        """The 32-bit names of a slot's values: a mixing that maps no two values to one name."""
        mixed: NDArray[np.uint32] = values.astype(np.uint32) ^ self.salts[slot]
        # An xor with the shifted value and a product with an odd number are both invertible modulo 2^32: no collisions.
        for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B), (16, 1)):
            mixed = (mixed ^ (mixed >> np.uint32(shift))) * np.uint32(factor)
        return mixed

    def text(self, rows: CriteoRows) -> tuple[bytes, NDArray[np.int64]]:
        """The lines, and where each ends."""
        tab = log_text.constant(b"\t", len(rows.labels))
        cells = [rows.labels[:, None] + np.uint8(ord("0"))]
        for integers, present in zip(rows.integers, rows.has_integer, strict=True):
            cells += [tab, log_text.decimal(integers, present, width=7)]
        for slot, values in enumerate(rows.values):
            cells += [tab, log_text.hexadecimal(self.names(slot, values), values >= 0)]
        return log_text.lines(cells)

    def describe(self) -> LogDescription:
        """What else there is to know, for the truth file."""
        vocabulary = {f"C{slot + 1}": law.values for slot, law in enumerate(self.laws)}
        return {"options": {"ids": self.ids}, "vocabulary": vocabulary}

    def job(self) -> JobPart:
        """The sections of a job that read this log and learn from it; the format has its own features."""
        return {"data": {"format": "criteo"}, "model": {"name": "wide_deep"}}


def _integer_tables(rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """By column and quantile: the integer, and what it adds to the logit (last: what missing adds)."""
    quantile = (np.arange(LEVELS) + 0.5) / LEVELS
    odds = np.log(quantile / (1 - quantile))
    tables, curves = [], []
    for integer in INTEGERS:
        table = np.minimum(np.floor(integer.median * np.exp(integer.spread * odds)), LARGEST)
        table[quantile < integer.negative] = -1
        table[quantile < integer.negative / 20] = -2
        height = (np.log1p(np.maximum(table, 0)) - np.log1p(integer.median)) / (1.5 * integer.spread)
        slope, bump, absent = rng.standard_normal(3)
        curve = slope * np.tanh(height) + 0.5 * bump * np.exp(-height * height)
        tables.append(table.astype(np.int64))
        curves.append(np.append(curve, absent / 2 if integer.absence else 0.0))
    return np.stack(tables), np.stack(curves)
