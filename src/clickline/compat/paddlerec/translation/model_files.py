"""model.py and its like in a workspace: whether they are written for Paddle, and on which line that shows.

Files are read as text and parsed, never executed.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path

_PADDLE = re.compile(r"^\s*(?:import|from)\s+(?:paddle|paddlerec|fleetrec)\b", re.ASCII)
_LIMIT = 1 << 20
NAMES = ("model.py", "dygraph_model.py", "static_model.py", "net.py")
"""Files of a workspace that have the model, of either generation."""


@dataclass(frozen=True, slots=True)
class PaddleImport:
    """A line that imports Paddle."""

    file: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}, line {self.line} ({self.text!r})"


def paddle_import(file: Path) -> PaddleImport | None:
    """The first line of a file that imports Paddle or PaddleRec; None if there is none, or no such file."""
    # Lines, not syntax: files of those years may be of Python 2, which no parser here reads.
    for number, line in enumerate(_text(file).splitlines(), 1):
        if _PADDLE.match(line):
            return PaddleImport(file, number, line.strip()[:80])
    return None


def class_of(file: Path, *, base: str) -> str | None:
    """The class in a file that derives from a class of ours, such as Model; None if there is none."""
    try:
        tree = ast.parse(_text(file))
    except (SyntaxError, ValueError):
        return None
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and any(_name(parent) == base for parent in node.bases):
            return node.name
    return None


def slots_in_reader(file: Path) -> tuple[list[str], list[str], list[int]] | None:
    """Sparse slots, dense slots and their sizes, where PaddleRec's reader has them as plain values; else None."""
    try:
        tree = ast.parse(_text(file))
    except (SyntaxError, ValueError):
        return None
    values: dict[str, object] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.value, ast.Constant | ast.List):
            try:
                values.setdefault(_name(node.targets[0]), ast.literal_eval(node.value))
            except ValueError:
                continue
    sparse, dense, sizes = (values.get(name) for name in ("sparse_slots", "dense_slots", "dense_slots_shape"))
    sparse_names = sparse.split() if isinstance(sparse, str) else _texts(sparse)
    if not sparse_names:
        return None
    dense_sizes = [size for size in sizes if isinstance(size, int)] if isinstance(sizes, list) else []
    dense_names = _texts(dense)
    return sparse_names, dense_names, dense_sizes if len(dense_sizes) == len(dense_names) else [1] * len(dense_names)


def _texts(value: object) -> list[str]:
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []


def _name(node: ast.expr) -> str:
    """x of x, and of anything.x."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _text(file: Path) -> str:
    try:
        # A path of the user's may be anything: reading a pipe would wait for ever.
        if not file.is_file() or file.stat().st_size > _LIMIT:
            return ""
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
