"""Alternating rounds: contenders take turns within one run, so that whatever the machine does meanwhile, it does to
all.

Results go to benchmarks/results/NAME.json: `machine` (facts), `figures` (medians and every round), `ratios`, and
`wanted`, the least each ratio should be.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).parent / "results"
console = Console()


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    names = [line.split(":", 1)[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    memory = [int(line.split()[1]) for line in _lines("/proc/meminfo") if line.startswith("MemTotal")]
    return {
        "cpu": names[0] if names else platform.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory[0] / 2**20, 1) if memory else None,
        "python": platform.python_version(),
        "torch": version("torch"),
        "date": datetime.now(UTC).date().isoformat(),
    }


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []


def alternate(contenders: Mapping[str, Callable[[], float]], *, rounds: int, unit: str) -> dict[str, dict[str, Any]]:
    """Run every contender once a round; each returns its figure. Medians, and all rounds beside them."""
    seen: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds):
        for name, run in contenders.items():
            figure = run()
            seen[name].append(figure)
            console.print(f"  round {number + 1}/{rounds}  {name}: {figure:,.0f} {unit}", highlight=False)
    return {
        name: {"median": round(statistics.median(all_), 1), "rounds": [round(x, 1) for x in all_], "unit": unit}
        for name, all_ in seen.items()
    }


def sections_of(known: tuple[str, ...]) -> Callable[[str], list[str]]:
    """A type for argparse: some of the known sections, in their own order."""

    def chosen(text: str) -> list[str]:
        names = text.split(",")
        unknown = [name for name in names if name not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"unknown {unknown[0]!r}; known: {', '.join(known)}")
        return [name for name in known if name in names]

    return chosen


class Report:
    """Collects figures and ratios, prints them, writes them."""

    def __init__(self, name: str) -> None:
        self._path = RESULTS / f"{name}.json"
        self.figures: dict[str, Any] = {}
        self.ratios: dict[str, float] = {}
        self.wanted: dict[str, float] = {}

    def median(self, name: str) -> float:
        return float(self.figures[name]["median"])

    def figure(self, name: str, value: float, *, unit: str) -> None:
        """A figure that was measured once."""
        self.figures[name] = {"median": value, "rounds": [value], "unit": unit}

    def ratio(self, name: str, value: float, *, wanted: float) -> None:
        self.ratios[name] = round(value, 6)  # finer than what is wanted, so that rounding never decides
        self.wanted[name] = wanted

    def keep(self) -> None:
        """Begin with what an earlier run has written: what is measured now replaces it, figure by figure."""
        if self._path.exists():
            written = json.loads(self._path.read_text(encoding="utf-8"))
            self.figures, self.ratios, self.wanted = written["figures"], written["ratios"], written["wanted"]

    def finish(self) -> None:
        """Print all ratios beside what is wanted of them, and write both files."""
        table = Table("ratio", "measured", "wanted", "")
        for name, value in self.ratios.items():
            met = "[green]met[/]" if value >= self.wanted[name] else "[red]missed[/]"
            table.add_row(name, f"{value:.4g}", f"≥ {self.wanted[name]}", met)
        console.print(table)
        RESULTS.mkdir(exist_ok=True)
        facts = {"machine": machine(), "figures": self.figures, "ratios": self.ratios, "wanted": self.wanted}
        self._path.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
        self._path.with_suffix(".md").write_text(self.markdown(), encoding="utf-8")
        console.print(f"written to {self._path} and {self._path.with_suffix('.md').name}", highlight=False)

    def markdown(self) -> str:
        """Machine, ratios and figures as a page."""
        page = [", ".join(f"{name} {value}" for name, value in machine().items()) + ".", ""]
        page += ["| ratio | measured | wanted | |", "|---|---:|---:|---|"]
        for name, value in self.ratios.items():
            met = "met" if value >= self.wanted[name] else "**missed**"
            page.append(f"| {name} | {value:.4g} | ≥ {self.wanted[name]} | {met} |")
        page += ["", "| figure | median | rounds | unit |", "|---|---:|---|---|"]
        for name, figure in self.figures.items():
            rounds = ", ".join(map(_shown, figure["rounds"])) if len(figure["rounds"]) > 1 else "one"
            page.append(f"| {name} | {_shown(figure['median'])} | {rounds} | {figure['unit']} |")
        return "\n".join(page) + "\n"


def _shown(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
