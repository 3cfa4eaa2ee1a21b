"""The pictures of the documentation are what their descriptions and the benchmarks' results say now."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]
PICTURES = sorted((ROOT / "docs" / "pictures").glob("*.svg"))


def drawn_by(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", f"import sys; {code}", *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tools")}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("source", sorted(PICTURES[0].parent.glob("*.diagram")), ids=lambda path: path.stem)
def test_a_diagram_is_drawn_from_its_description(source: Path) -> None:
    done = drawn_by("import diagram; print(end=diagram.drawn(open(sys.argv[1]).read()))", source)
    assert done.stderr == ""
    assert done.stdout == source.with_suffix(".svg").read_text(encoding="utf-8"), "make pictures draws it again"


def test_the_chart_is_drawn_from_the_results() -> None:
    done = drawn_by("import benchmark_chart; print(end=benchmark_chart.chart(benchmark_chart.RESULTS))")
    assert done.stderr == ""
    chart = ROOT / "docs" / "pictures" / "benchmarks.svg"
    assert done.stdout == chart.read_text(encoding="utf-8"), "make pictures draws it again"


@pytest.mark.parametrize("picture", PICTURES, ids=lambda path: path.stem)
def test_a_picture_has_a_title_and_dark_colours_and_loads_nothing(picture: Path) -> None:
    text = picture.read_text(encoding="utf-8")
    root = ElementTree.fromstring(text)  # noqa: S314 - our own file
    title = root.find("{http://www.w3.org/2000/svg}title")
    assert title is not None and title.text
    assert "prefers-color-scheme: dark" in text
    assert text.count("://") == 1, "the name of the format, and no other address"


def test_a_mistake_in_a_description_is_told_with_its_line() -> None:
    done = drawn_by("import diagram; diagram.drawn('box a 0 0: A\\n\\narrow a -> b: to')")
    assert "line 3: no box 'b' before the arrow to it; known: a" in done.stderr
