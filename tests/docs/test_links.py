"""What the documentation links to and names is there: pages, headings, files of the tree, tests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.markdown_links import broken_links, missing_files

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").rglob("*.md")])
SOURCES = sorted(
    path
    for pattern in ("src/**/*.py", "tests/**/*.py", "benchmarks/**/*.py", "native/**/*.cpp", "native/**/*.h", "*.toml")
    for path in ROOT.glob(pattern)
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    assert broken_links(page) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_and_tests_that_a_page_names_are_there(page: Path) -> None:
    assert missing_files(page.read_text(encoding="utf-8"), ROOT) == []


def test_pages_that_the_code_names_are_there() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in SOURCES
        if path != Path(__file__)
        for name in re.findall(r"(?<![\w./-])docs/[\w./-]+\.md", path.read_text(encoding="utf-8"))
        if not (ROOT / name).exists()
    ]
    assert wrong == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# One `thing`, and more\n## Twice\n## Twice\n", encoding="utf-8")
    page = tmp_path / "page.md"
    page.write_text(
        "[a](other.md) [b](other.md#one-thing-and-more) [c](other.md#twice-1) [d](https://example.org/x) `x[0](y)`\n"
        "[e](gone.md) [f](other.md#two) [g](#here)\n```sh\n# [h](gone-too.md)\n```\n",
        encoding="utf-8",
    )
    assert broken_links(page) == ["gone.md: no such file", "other.md#two: no such heading", "#here: no such heading"]


def test_a_file_or_test_that_is_not_there_is_found() -> None:
    sound = "`tests/run.sh`, `tests/docs/test_links.py::test_a_broken_link_is_found`, test_cube_hostile, docs/."
    assert missing_files(sound, ROOT) == []
    wrong = ["tests/run.bat", "tests/docs/test_links.py::test_none", "test_that_nobody_wrote"]
    assert missing_files(" ".join(wrong), ROOT) == wrong
