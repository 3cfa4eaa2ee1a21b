"""Links and names of files in a page of Markdown, and what is wrong with them."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path

FENCED = re.compile(r"^(```|~~~).*?^\1", flags=re.DOTALL | re.MULTILINE)
INLINE_CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\]\(([^()\s]+)\)")
NAMED_FILE = re.compile(r"(?<![\w./-])(?:tests|src|native|docs|benchmarks)/[\w./-]*\w(?:::(?P<test>\w+))?")
# Tests are named by behaviour, so by at least three words: test_dict is a dictionary of the examples.
NAMED_TEST = re.compile(r"(?<![\w./:])test_[a-z]+_[a-z]+_\w+(?![\w.])")
ELSEWHERE = re.compile(r"[a-z]+:")


@cache
def anchors(page: Path) -> set[str]:
    """What GitHub calls the headings of a page, and the names given by hand."""
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    seen: Counter[str] = Counter()
    found = set(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", text))
    for heading in re.findall(r"^#{1,6} +(.*?) *#*$", text, flags=re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        found.add(slug if not seen[slug] else f"{slug}-{seen[slug]}")
        seen[slug] += 1
    return found


@cache
def tests_of(root: Path) -> str:
    """Every line of the tests that defines a test or names the file of some."""
    files = list((root / "tests").rglob("test_*.py"))
    lines = re.findall(r"^ *(?:async )?def (test_\w+)", "\n".join(map(Path.read_text, files)), flags=re.MULTILINE)
    native = [path.stem for path in (root / "native" / "tests").rglob("test_*.cpp")]
    return "\n".join(["", *lines, *(path.stem for path in files), *native, ""])


def broken_links(page: Path) -> list[str]:
    """Links to files or headings that are not there."""
    text = INLINE_CODE.sub("", FENCED.sub("", page.read_text(encoding="utf-8")))
    wrong = []
    for link in LINK.findall(text):
        if ELSEWHERE.match(link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name) if name else page
        if not target.exists():
            wrong.append(f"{link}: no such file")
        elif anchor and anchor not in anchors(target):
            wrong.append(f"{link}: no such heading")
    return wrong


def missing_files(text: str, root: Path) -> list[str]:
    """Files of the tree, and tests, that a text names and that are not there."""
    wrong = []
    for found in NAMED_FILE.finditer(text):
        name, _, test = found[0].partition("::")
        if not (root / name).exists() and not (root / "src" / name).exists():
            wrong.append(name)
        elif test and f"def {test}(" not in (root / name).read_text(encoding="utf-8"):
            wrong.append(found[0])
    wrong += [name for name in NAMED_TEST.findall(text) if f"\n{name}\n" not in tests_of(root)]
    return wrong
