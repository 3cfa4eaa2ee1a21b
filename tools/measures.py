#!/usr/bin/env python3
"""Measures of how readable the tree is, each beside its limit: python tools/measures.py [CHECKOUT] [--json].

Everything is read from the source text, nothing is imported. The exit code is 1 if a measure is beyond its limit.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

NATIVE_SUFFIXES = {".h", ".cpp"}
GENERATED = "protos"
"""Folder of generated Python, which is nobody's style."""


@dataclass(frozen=True)
class Measure:
    """One figure of the tree and the range that it should be in; a measure without a limit only informs."""

    name: str
    value: float
    at_most: float | None = None
    at_least: float | None = None
    detail: str = ""

    @property
    def kept(self) -> bool:
        return (self.at_most is None or self.value <= self.at_most) and (
            self.at_least is None or self.value >= self.at_least
        )

    @property
    def wanted(self) -> str:
        if self.at_most is not None:
            return f"≤ {self.at_most:g}"
        return f"≥ {self.at_least:g}" if self.at_least is not None else ""


@dataclass(frozen=True)
class Members:
    """Names of the methods and attributes of a class."""

    methods: frozenset[str] = frozenset()
    attributes: frozenset[str] = frozenset()

    def __or__(self, other: Members) -> Members:
        return Members(self.methods | other.methods, self.attributes | other.attributes)


class SourceTree:
    """The Python and native sources of a checkout, parsed once."""

    def __init__(self, root: Path) -> None:
        self.root = root
        paths = [path for path in (root / "src").rglob("*.py") if GENERATED not in path.parts]
        self.texts = {path: path.read_text(encoding="utf-8") for path in sorted(paths)}
        self.classes: dict[str, list[ast.ClassDef]] = defaultdict(list)
        self.files_of_class: dict[str, list[str]] = defaultdict(list)
        for path, text in self.texts.items():
            for node in ast.parse(text).body:
                if isinstance(node, ast.ClassDef):
                    self.classes[node.name].append(node)
                    self.files_of_class[node.name].append(str(path.relative_to(root)))

    def matches(self, pattern: str) -> int:
        return sum(len(re.findall(pattern, text)) for text in self.texts.values())

    def doubled_classes(self) -> dict[str, list[str]]:
        """Public class names that are defined more than once, with their files."""
        return {
            name: files
            for name, files in sorted(self.files_of_class.items())
            if len(files) > 1 and not name.startswith("_")
        }

    def doubled_modules(self) -> list[str]:
        counts = Counter(path.stem for path in self.texts if not path.stem.startswith("__"))
        return sorted(name for name, count in counts.items() if count > 1)

    def members(self, name: str, seen: frozenset[str] = frozenset()) -> Members:
        """Members of a class with those of its bases. A base that is doubled or foreign counts for nothing."""
        if name in seen or len(self.classes.get(name, [])) != 1:
            return Members()
        node = self.classes[name][0]
        members = own_members(node)
        for base in node.bases:
            if isinstance(base, ast.Name):
                members |= self.members(base.id, seen | {name})
        return members

    def largest_class(self) -> tuple[str, Members]:
        sized = ((name, self.members(name)) for name in self.classes)
        return max(sized, key=lambda item: len(item[1].methods), default=("", Members()))


def own_members(node: ast.ClassDef) -> Members:
    """Methods, declared fields, and attributes that any method assigns to `self`."""
    methods = {item.name for item in node.body if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)}
    fields = {
        item.target.id for item in node.body if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
    }
    assigned = {
        item.attr
        for item in ast.walk(node)
        if isinstance(item, ast.Attribute)
        and isinstance(item.ctx, ast.Store)
        and isinstance(item.value, ast.Name)
        and item.value.id == "self"
    }
    return Members(frozenset(methods), frozenset(fields | assigned))


def fullest_folder(paths: Iterator[Path], root: Path) -> tuple[str, int]:
    counts = Counter(str(path.parent.relative_to(root)) for path in paths)
    return max(counts.items(), key=lambda item: item[1], default=("", 0))


def measures(tree: SourceTree) -> list[Measure]:
    doubled, modules = tree.doubled_classes(), tree.doubled_modules()
    folder, files = fullest_folder(iter(tree.texts), tree.root)
    native = (path for path in (tree.root / "native").rglob("*") if path.suffix in NATIVE_SUFFIXES)
    native_folder, native_files = fullest_folder(native, tree.root)
    largest, members = tree.largest_class()
    lengths = {path: text.count("\n") for path, text in tree.texts.items()}
    lines = max(1, sum(lengths.values()))
    comments = tree.matches(r"(?m)^\s*#(?!!)")
    longest = max(lengths, key=lambda path: lengths[path], default=tree.root)
    contracts = (tree.root / "pyproject.toml").read_text(encoding="utf-8").count("[[tool.importlinter.contracts]]")
    return [
        Measure("public class names defined twice", len(doubled), at_most=0, detail=_listed(doubled)),
        Measure("module names used twice", len(modules), at_most=7, detail=", ".join(modules)),
        Measure("most files in a folder", files, at_most=16, detail=folder),
        Measure("most native files in a folder", native_files, at_most=16, detail=native_folder),
        Measure("methods of the largest class", len(members.methods), at_most=25, detail=largest),
        Measure("attributes of that class", len(members.attributes), at_most=20, detail=largest),
        Measure("handlers found by a built name", tree.matches(r"getattr\(self, f[\"']_(?:on|do)_"), at_most=0),
        Measure("dict[str, Any]", tree.matches(r"dict\[str, Any\]"), at_most=119),
        Measure("import contracts", contracts, at_least=10),
        Measure("comment lines per 100 lines", round(100 * comments / lines, 2), at_least=2),
        Measure("longest file, lines", lengths.get(longest, 0), detail=str(longest.relative_to(tree.root))),
        Measure("Python files", len(tree.texts)),
        Measure("lines of Python", lines),
    ]


def _listed(doubled: Mapping[str, list[str]]) -> str:
    return "; ".join(f"{name} ({', '.join(files)})" for name, files in doubled.items())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", nargs="?", type=Path, default=Path(__file__).parents[1])
    parser.add_argument("--json", action="store_true", help="the measures as a list of objects")
    options = parser.parse_args()
    result = measures(SourceTree(options.checkout.resolve()))
    if options.json:
        print(json.dumps([asdict(measure) | {"kept": measure.kept} for measure in result], indent=2))
    else:
        for measure in result:
            verdict = "" if not measure.wanted else "kept" if measure.kept else "MISSED"
            print(f"{measure.name:34}{measure.value:>10g}{measure.wanted:>8}  {verdict:7} {measure.detail}".rstrip())
    return 0 if all(measure.kept for measure in result) else 1


if __name__ == "__main__":
    sys.exit(main())
