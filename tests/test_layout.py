"""The layout of tests/: shared code is in the package `support`, tests do not import each other, folders stay small."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parent
FILES = sorted(TESTS.rglob("*.py"))
MOST_FILES = 16


def imported(tree: ast.AST) -> Iterator[str]:
    """Names of modules that a file imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or "")


def test_no_file_imports_from_a_test() -> None:
    ours = {path.stem for path in FILES} - {"__init__", "__main__"}
    wrong = [
        f"{path.relative_to(TESTS)}: {name}"
        for path in FILES
        for name in imported(ast.parse(path.read_text(encoding="utf-8")))
        if name.startswith(".") or name.rpartition(".")[2].startswith("test_") or name in ours
    ]
    assert wrong == []


def test_no_test_changes_where_modules_are_found() -> None:
    changes = ("sys.path.insert(", "sys.path.append(", "sys.path +=", "sys.path[")
    wrong = [
        str(path.relative_to(TESTS))
        for path in FILES
        if path != Path(__file__) and any(change in path.read_text(encoding="utf-8") for change in changes)
    ]
    assert wrong == []


def test_no_folder_is_crowded() -> None:
    counts = Counter(path.parent.relative_to(TESTS) for path in FILES)
    assert {str(folder): count for folder, count in counts.items() if count > MOST_FILES} == {}
