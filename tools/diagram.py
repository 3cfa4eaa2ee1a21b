#!/usr/bin/env python3
"""Diagrams from text: python tools/diagram.py draws docs/pictures/*.diagram as SVG files of the same names.

A description has one statement a line; positions and sizes are in cells of a grid, `#` begins a comment:

    title: What the picture shows
    band ROW ROWS: words                           a coloured strip behind some rows
    box NAME COLUMN ROW [COLUMNS [ROWS]]: Title | small line | small line
    text COLUMN ROW: words
    arrow NAME -> NAME: words                      <-> has a head at both ends
    layers ROW COLUMNS: pyproject.toml             a box for every room, in the order of its import contract

An arrow runs straight between boxes that face each other, else it turns once or twice.
"""

from __future__ import annotations

import re
import sys
import tomllib
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from svg_page import SvgPage

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "pictures"
COLUMN, ROW, MARGIN = 170.0, 92.0, 24.0
SPACE_X, SPACE_Y = 14.0, 36.0
"""What a box leaves free of its cells."""
STATEMENT = re.compile(r"(?P<kind>title|band|box|text|arrow|layers)\b *(?P<arguments>[^:]*): *(?P<words>.*)")


LAYER = 0.34
"""Rows of the grid that a layer takes."""


class DiagramError(Exception):
    """Raised when a description has a line that cannot be drawn."""


@dataclass(frozen=True)
class Box:
    """A rectangle of a diagram, in pixels."""

    x: float
    y: float
    width: float
    height: float

    @property
    def right(self) -> float:
        return self.x + self.width

    @property
    def bottom(self) -> float:
        return self.y + self.height

    @property
    def centre(self) -> tuple[float, float]:
        return self.x + self.width / 2, self.y + self.height / 2


@dataclass
class Diagram:
    """A diagram under construction: statements are drawn as they come, so arrows name boxes that are above them."""

    page: SvgPage
    boxes: dict[str, Box] = field(default_factory=dict)
    width: float = 0
    height: float = 0
    bands: list[tuple[float, float, str]] = field(default_factory=list)

    def draw(self, line: str) -> None:
        statement = STATEMENT.fullmatch(line)
        if statement is None:
            raise DiagramError(f"expected title, band, box, text, arrow or layers with a colon, not {line!r}")
        words, arguments = statement["words"], statement["arguments"].split()
        match statement["kind"]:
            case "title":
                self.page.title = words
            case "band":
                row, rows = map(float, arguments)
                self.bands.append((top(row), top(row + rows) - top(row), words))
            case "box":
                self._box(arguments[0], [float(argument) for argument in arguments[1:]], words)
            case "text":
                self.page.text(left(float(arguments[0])), top(float(arguments[1])), words, kind="note", size=12)
            case "layers":
                self._layers(float(arguments[0]), float(arguments[1]), layers_of(ROOT / words))
            case _:
                self._arrow(arguments, words)

    def _box(self, name: str, cells: list[float], words: str) -> None:
        column, row, columns, rows = [*cells, *([1.0, 1.0][len(cells) - 2 :])]
        box = Box(
            left(column),
            top(row),
            left(column + columns) - left(column) - SPACE_X,
            top(row + rows) - top(row) - SPACE_Y,
        )
        title, *lines = (part.strip() for part in words.split("|"))
        self.boxes[name] = box
        self.page.rectangle(box.x, box.y, box.width, box.height, kind="box")
        x, y = box.centre
        y -= 8 * len(lines) - 5
        self.page.text(x, y, title, kind="title", size=13.5, anchor="middle")
        for number, text in enumerate(lines, start=1):
            self.page.text(x, y + 16 * number, text, kind="note", size=11.5, anchor="middle")
        self.width, self.height = max(self.width, box.right), max(self.height, box.bottom)

    def _layers(self, row: float, columns: float, layers: list[list[str]]) -> None:
        for number, rooms in enumerate(layers):
            width = columns / len(rooms)
            for column, room in enumerate(rooms):
                self._box(f"layer {room}", [column * width, row + LAYER * number, width, LAYER + 0.33], room)

    def _arrow(self, arguments: list[str], words: str) -> None:
        start, sign, end = arguments
        for name in (start, end):
            if name not in self.boxes:
                raise DiagramError(f"no box {name!r} before the arrow to it; known: {', '.join(self.boxes)}")
        points = route(self.boxes[start], self.boxes[end])
        self.page.arrow(points, both=sign == "<->")
        # The label stands at the longest stretch, above a horizontal one and beside a vertical one.
        (x, y), (other_x, other_y) = max(
            pairwise(points),
            key=lambda pair: abs(pair[0][0] - pair[1][0]) + abs(pair[0][1] - pair[1][1]),
        )
        if y == other_y:
            self.page.text((x + other_x) / 2, y - 5, words, kind="note", size=11, anchor="middle")
        else:
            self.page.text(x + 6, (y + other_y) / 2 + 4, words, kind="note", size=11)

    def document(self) -> str:
        width, height = self.width + MARGIN, self.height + MARGIN
        strips = SvgPage("")
        for y, band_height, words in self.bands:
            strips.rectangle(MARGIN / 2, y, width - MARGIN, band_height - 8, kind="band", radius=10)
            strips.text(MARGIN, y + 17, words, kind="note", size=12)
        self.page.shapes[:0] = strips.shapes  # behind everything else
        return self.page.document(width, height)


def layers_of(project: Path) -> list[list[str]]:
    """The layers of the import contract, top first, each with the rooms that stand side by side."""
    contracts = tomllib.loads(project.read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    layers: list[str] = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    return [[room.strip().removeprefix("clickline.") for room in re.split(r"[|:]", layer)] for layer in layers]


def left(column: float) -> float:
    return MARGIN + column * COLUMN


def top(row: float) -> float:
    return MARGIN + row * ROW


def route(start: Box, end: Box) -> list[tuple[float, float]]:
    """Corners of an arrow from the edge of one box to the edge of another."""
    low, high = max(start.y, end.y), min(start.bottom, end.bottom)
    near, far = max(start.x, end.x), min(start.right, end.right)
    if low < high:  # side by side
        y = (low + high) / 2
        return [(start.right, y), (end.x, y)] if start.x < end.x else [(start.x, y), (end.right, y)]
    downwards = start.y < end.y
    from_y, to_y = (start.bottom, end.y) if downwards else (start.y, end.bottom)
    if near < far:  # one above the other
        x = (near + far) / 2
        return [(x, from_y), (x, to_y)]
    middle = (from_y + to_y) / 2
    return [(start.centre[0], from_y), (start.centre[0], middle), (end.centre[0], middle), (end.centre[0], to_y)]


def drawn(description: str) -> str:
    """The SVG text of a description."""
    diagram = Diagram(SvgPage(""))
    for number, line in enumerate(description.splitlines(), start=1):
        statement = line.partition("#")[0].strip()
        if statement:
            try:
                diagram.draw(statement)
            except (DiagramError, ValueError) as error:
                raise DiagramError(f"line {number}: {error}") from error
    return diagram.document()


def main() -> int:
    for source in sorted(PICTURES.glob("*.diagram")):
        source.with_suffix(".svg").write_text(drawn(source.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
