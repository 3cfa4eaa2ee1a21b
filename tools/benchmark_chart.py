#!/usr/bin/env python3
"""The chart of the README: python tools/benchmark_chart.py draws docs/pictures/benchmarks.svg from benchmarks/results.

Each comparison is a group of bars of its own scale: Clickline first, then its peers, all in the unit of that
comparison. Comparisons that are lost or missed their goal stay in the chart.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

from svg_page import SvgPage

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
CHART = ROOT / "docs" / "pictures" / "benchmarks.svg"
WIDTH, LEFT, BAR, GROUP = 880.0, 250.0, 19.0, 46.0
LONGEST = WIDTH - LEFT - 130
"""Pixels of the longest bar of a group; its figure stands beside it."""


@dataclass(frozen=True)
class Comparison:
    """One group of bars: figures of one results file, under the names that the chart gives them."""

    title: str
    results: str
    bars: dict[str, str]


COMPARISONS = [
    Comparison(
        "Parsing raw Criteo text, one core (peers stop at columns)",
        "train",
        {
            "Clickline": "parse",
            "pyarrow.csv": "pyarrow, columns only",
            "polars": "polars, columns only",
            "pandas": "pandas, columns only",
        },
    ),
    Comparison(
        "Logistic regression from raw text",
        "train",
        {"Clickline": "lr", "Vowpal Wabbit, prepared text": "VW prepared", "Vowpal Wabbit, raw text": "VW raw"},
    ),
    Comparison(
        "DeepFM from text to one trained epoch",
        "train",
        {"Clickline": "deepfm from text", "FuxiCTR": "FuxiCTR deepfm from text"},
    ),
    Comparison(
        "Asynchronous parameter servers, 2 servers, 2 trainers",
        "ps",
        {"Clickline": "A async, batch 1000", "PaddlePaddle 2.6": "Q Paddle async, batch 1000"},
    ),
    Comparison(
        "Reading 64-byte rows over TCP, 100 keys a request",
        "cube",
        {
            "Clickline cube": "Clickline, batch 100",
            "Redis, bare socket": "bare socket, batch 100",
            "Redis, redis-py": "redis-py, batch 100",
        },
    ),
    Comparison(
        "Predictions, JSON, 16 rows a request, 8 clients",
        "serve",
        {
            "Clickline, raw features": "Clickline JSON, dictionary, 8 clients",
            "FastAPI with orjson": "FastAPI orjson, 8 clients",
            "MLServer": "MLServer, 8 clients",
            "LitServe": "LitServe, 8 clients",
        },
    ),
    Comparison(
        "Predictions, binary tensors, 16 rows a request, 1 client",
        "serve",
        {
            "Clickline, raw features": "Clickline binary, dictionary, 1 client",
            "FastAPI, ready inputs": "FastAPI binary, 1 client",
        },
    ),
]


def chart(results: Path) -> str:
    """The SVG text of all comparisons."""
    page = SvgPage("Clickline beside its peers, medians of alternating rounds on two cores")
    page.text(16, 28, page.title, kind="title", size=15)
    y = 56.0
    for comparison in COMPARISONS:
        figures = json.loads((results / f"{comparison.results}.json").read_text(encoding="utf-8"))["figures"]
        values = {label: float(figures[name]["median"]) for label, name in comparison.bars.items()}
        unit = str(figures[next(iter(comparison.bars.values()))]["unit"])
        page.text(16, y, comparison.title, kind="text", size=13)
        y += 8
        for number, (label, value) in enumerate(values.items()):
            length = max(2.0, LONGEST * value / max(values.values()))
            page.text(LEFT - 8, y + BAR - 5, label, kind="note", size=12, anchor="end")
            page.rectangle(LEFT, y + 2, length, BAR - 4, kind="peer" if number else "own", radius=2)
            page.text(LEFT + length + 6, y + BAR - 5, f"{value:,.0f} {unit}", kind="note", size=12)
            y += BAR
        y += GROUP - BAR
    return page.document(WIDTH, y - 8)


def main() -> int:
    CHART.write_text(chart(RESULTS), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
