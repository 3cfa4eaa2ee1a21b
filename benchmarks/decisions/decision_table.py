"""The table of a decision page: contenders take turns, medians are printed, and `--write` puts them into the page.

A page has its table between two comments, the first of which names the command that fills it:

    <!-- figures: make decision-wire -->
    <!-- end of figures -->
"""

from __future__ import annotations

import argparse
import re
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from peers import HERE
from rounds import console, machine

DECISIONS = HERE.parent / "docs" / "decisions"


@dataclass(frozen=True)
class Options:
    """What the command line of every decision's script takes."""

    rounds: int
    seconds: float
    write: bool


def options(description: str | None, *, seconds: float = 2.0) -> Options:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="times that contenders take turns (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=seconds, help="of each measurement (default %(default)s)")
    parser.add_argument("--write", action="store_true", help="put the table into the page of the decision")
    given = parser.parse_args()
    return Options(given.rounds, given.seconds, given.write)


@dataclass
class DecisionTable:
    """Figures by contender and column, one of each for every round."""

    page: str
    columns: tuple[str, ...]
    figures: dict[str, dict[str, list[float]]] = field(default_factory=dict)

    def alternate(self, contenders: Mapping[str, Callable[[], Mapping[str, float]]], *, rounds: int) -> None:
        """Every contender once a round, so that whatever the machine does meanwhile, it does to all."""
        for number in range(rounds):
            for name, measured in contenders.items():
                values = measured()
                console.print(f"  round {number + 1}/{rounds}  {name}: {_listed(values)}", highlight=False)
                for column, value in values.items():
                    self.figures.setdefault(name, {}).setdefault(column, []).append(value)

    def median(self, contender: str, column: str) -> float:
        return statistics.median(self.figures[contender][column])

    def markdown(self) -> str:
        lines = ["| | " + " | ".join(self.columns) + " |", "|---|" + "---:|" * len(self.columns)]
        for name, values in self.figures.items():
            cells = [_shown(statistics.median(values[column])) if column in values else "" for column in self.columns]
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
        facts = machine()
        rounds = max(len(rounds) for values in self.figures.values() for rounds in values.values())
        where = f"{facts['cores']} cores of {facts['cpu']}, Python {facts['python']}, {facts['date']}"
        return "\n".join([*lines, "", f"Medians of {rounds} rounds; {where}."])

    def finish(self, *, write: bool) -> None:
        console.print(self.markdown(), highlight=False, markup=False)
        if write:
            path = DECISIONS / self.page
            path.write_text(filled(path.read_text(encoding="utf-8"), self.markdown()), encoding="utf-8")
            console.print(f"written to {path}", highlight=False)


def filled(page: str, table: str) -> str:
    """The page with another table between its two comments."""
    marked = re.compile(r"(<!-- figures: [^>]*-->\n).*?(<!-- end of figures -->)", re.DOTALL)
    result, count = marked.subn(lambda match: f"{match[1]}{table}\n{match[2]}", page)
    if count != 1:
        raise ValueError(f"the page should have one '<!-- figures: … -->' with an end, not {count}")
    return result


def _listed(values: Mapping[str, float]) -> str:
    return ", ".join(f"{column} {_shown(value)}" for column, value in values.items())


def _shown(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
