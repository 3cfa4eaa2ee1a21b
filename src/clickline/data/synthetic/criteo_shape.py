"""The shape of the Criteo logs: how many values a category has, how they are spread, what is missing together.

Sizes of vocabularies are those of the Kaggle set; the rest is rounded. Nothing here is a row of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from clickline.data.synthetic.zipf import Zipf
from clickline.errors import DataError

SMALL = 1000
"""Vocabularies up to this size stay as they are, whatever total is asked for."""
FEWEST_IDS, MOST_IDS = 25_000, 1_000_000_000


@dataclass(frozen=True, slots=True)
class Category:
    values: int
    top: float
    exponent: float
    absence: str = ""
    """Name of the group of columns that are missing together."""
    tail: float = 0.0
    """Share of rows whose value is one of the many that are seen once."""


@dataclass(frozen=True, slots=True)
class Integer:
    median: float
    spread: float
    """Scale of the logistic law that ln(value) follows."""
    absence: str = ""
    negative: float = 0.0
    """Share of values below zero."""


ABSENCES = {
    "shop": 0.034,
    "site": 0.44,
    "kind": 0.12,
    "rare": 0.76,
    "visit": 0.45,
    "past": 0.21,
    "few": 0.04,
    "late": 0.765,
}
"""Groups of columns that are missing together, and how often."""

CATEGORIES = (
    Category(1460, 0.50, 1.9),
    Category(583, 0.11, 1.2),
    Category(10_131_227, 0.025, 1.3, "shop", 0.38),
    Category(2_202_608, 0.036, 1.3, "shop", 0.15),
    Category(305, 0.67, 2.2),
    Category(24, 0.45, 1.9, "kind"),
    Category(12_517, 0.03, 1.4, tail=0.03),
    Category(633, 0.60, 2.0),
    Category(3, 0.90, 3.0),
    Category(93_145, 0.22, 1.4, tail=0.05),
    Category(5683, 0.05, 1.4),
    Category(8_351_593, 0.025, 1.3, "shop", 0.34),
    Category(3194, 0.05, 1.4),
    Category(27, 0.36, 2.0),
    Category(14_992, 0.03, 1.4, tail=0.03),
    Category(5_461_306, 0.025, 1.3, "shop", 0.26),
    Category(10, 0.46, 1.5),
    Category(5652, 0.05, 1.4),
    Category(2173, 0.60, 1.5, "site"),
    Category(4, 0.34, 1.5, "site"),
    Category(7_046_547, 0.025, 1.3, "shop", 0.31),
    Category(18, 0.57, 2.0, "rare"),
    Category(15, 0.44, 1.6),
    Category(286_181, 0.055, 1.5, "shop", 0.06),
    Category(105, 0.25, 1.7, "site"),
    Category(142_572, 0.075, 1.4, "site", 0.08),
)

INTEGERS = (
    Integer(1.4, 0.80, "visit"),
    Integer(3.2, 1.42, negative=0.1),
    Integer(6.5, 0.76, "past"),
    Integer(4.5, 0.50, "past"),
    Integer(2800, 1.05),
    Integer(32, 0.81, "past"),
    Integer(3.5, 0.93, "few"),
    Integer(7.5, 0.42),
    Integer(39, 0.71, "few"),
    Integer(0.9, 0.35, "visit"),
    Integer(1.5, 0.65, "few"),
    Integer(0.5, 0.85, "late"),
    Integer(4.5, 0.53, "past"),
)

CROSSING = (5, 13, 16, 22)
"""Categories (from 0) whose frequent values act together."""


def category_laws(ids: int) -> list[Zipf]:
    """The law of each category when all vocabularies together hold about `ids` values."""
    if not FEWEST_IDS <= ids <= MOST_IDS:
        raise DataError(f"ids is {ids}, but must lie between {FEWEST_IDS} and {MOST_IDS}")

    def sizes(power: float) -> list[int]:
        """Vocabularies above SMALL, shrunk or grown on a logarithmic scale."""
        return [c.values if c.values <= SMALL else round(SMALL * (c.values / SMALL) ** power) for c in CATEGORIES]

    low, high = 0.0, 3.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(sizes(middle)) < ids else (low, middle)
    pairs = zip(sizes(high), CATEGORIES, strict=True)
    return [
        Zipf(values=values, top=category.top, exponent=category.exponent, tail=category.tail)
        for values, category in pairs
    ]
