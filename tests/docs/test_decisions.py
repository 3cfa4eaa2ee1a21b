"""Decision pages: all are in the list, and a table of figures names the command that makes it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "decisions").glob("0*.md"))


def test_every_decision_is_in_the_list() -> None:
    index = (ROOT / "docs" / "decisions" / "README.md").read_text(encoding="utf-8")
    assert [page.name for page in PAGES if f"({page.name})" not in index] == []


def test_a_table_of_figures_names_a_script_that_is_there() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.search(r"^DECISIONS := (.*)$", makefile, flags=re.MULTILINE)
    assert targets is not None
    named = [
        name
        for page in PAGES
        for name in re.findall(r"<!-- figures: make decision-(\w+) -->", page.read_text(encoding="utf-8"))
    ]
    assert sorted(named) == sorted(targets[1].split())
    assert [name for name in named if not (ROOT / "benchmarks" / "decisions" / f"{name}.py").is_file()] == []


def test_a_table_is_put_between_the_comments_of_its_page() -> None:
    code = (
        "import decision_table; "
        "print(end=decision_table.filled('a\\n<!-- figures: make x -->\\nold\\n<!-- end of figures -->\\nb\\n', 'new'))"
    )
    folders = os.pathsep.join([str(ROOT / "benchmarks"), str(ROOT / "benchmarks" / "decisions")])
    environment = {**os.environ, "PYTHONPATH": folders}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout == "a\n<!-- figures: make x -->\nnew\n<!-- end of figures -->\nb\n"
