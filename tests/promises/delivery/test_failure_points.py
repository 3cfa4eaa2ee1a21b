"""Every failure point in the code has a test that kills there, and every registered one is in the code."""

from __future__ import annotations

import re
from pathlib import Path

import clickline
from clickline.files import failpoints
from support.cubes.failure_points import POINTS, WHO

REACHED = re.compile(r"""\breach\(\s*(f?["'][^"']*["']|[^)]*)""")


def reached() -> list[str]:
    """As written in the code, in all its files."""
    source = Path(clickline.__file__).parent
    texts = [path.read_text(encoding="utf-8") for path in source.rglob("*.py") if path.name != "failpoints.py"]
    return [found for text in texts for found in REACHED.findall(text)]


def test_what_the_code_reaches_is_what_is_registered() -> None:
    found = reached()
    assert all(re.fullmatch(r'"[a-z]+\.[a-z-]+"', each) for each in found), "names must be written out"
    assert {each.strip('"') for each in found} == set(failpoints.NAMES)


def test_processes_are_killed_at_every_registered_one() -> None:
    tested = {name for name, _ in POINTS}
    assert all(name.partition(".")[0] in WHO for name in tested)
    assert tested == set(failpoints.DELIVERING)
    # Those of publishing and of training are gone through by tests that compare with the lists.
    tests = Path(__file__).parents[2]
    deaths = tests / "support" / "programs" / "publisher_deaths.py"
    assert "in failpoints.PUBLISHING" in deaths.read_text(encoding="utf-8")
    saves = tests / "train" / "checkpoints" / "test_killed_while_saving.py"
    assert "TRAINING" in saves.read_text(encoding="utf-8")
