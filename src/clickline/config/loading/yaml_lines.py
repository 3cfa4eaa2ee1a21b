"""YAML with line numbers: text becomes plain values, and every key remembers the line it stands on.

Beware of three things. Scalars follow YAML 1.2, as editors do: only true and false are booleans (`no` is a word), 1e-3
is a number, and 12:30 is text. So are 007, 0x1f and 1_000: an integer is read as one only if it is written as it would
be printed, since slots may have integers for names, and a name must not change on the way. Aliases are expanded, so a
small file can ask for a huge tree; nodes are counted and a limit stops it. And no tag makes an object: what comes out
is None, bool, int, float, str, list, dict.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Literal

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from clickline.config.loading.origins import Origins, Path, key_text
from clickline.errors import JobProblem

RepeatedKeys = Literal["refuse", "last"]
"""What a key that is given twice is: a problem, or a notice, and its last value counts."""
MAX_NODES = 200_000
MAX_DEPTH = 32
_TAG = "tag:yaml.org,2002:"


class UnreadableError(Exception):
    """Raised when a text is not YAML, or YAML that no job can have."""

    def __init__(self, problem: JobProblem) -> None:
        super().__init__(str(problem))
        self.problem = problem


class _Loader(yaml.SafeLoader):
    # SafeLoader has those of YAML 1.1, by which `no` is false and 12:30 is 750.
    yaml_implicit_resolvers = {}  # those of YAML 1.2 are added below
    depth = 0

    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        # PyYAML recurses for every level: without a limit of our own, deep nesting would end in a RecursionError.
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise UnreadableError(_too_deep(self.line + 1))
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


# PyYAML tries a pattern only on scalars that begin with one of the characters in the list; "" is the empty scalar.
for _name, _pattern, _starts in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"0|-?[1-9][0-9]*", list("-0123456789")),
    (
        "float",
        r"[-+]?(\.[0-9]+|[0-9]+\.[0-9]*)([eE][-+]?[0-9]+)?|[-+]?[0-9]+[eE][-+]?[0-9]+"
        r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        list("-+0123456789."),
    ),
    ("merge", r"<<", ["<"]),
):
    _Loader.add_implicit_resolver(_TAG + _name, re.compile(rf"^(?:{_pattern})$"), _starts)


@dataclass
class Tree:
    """A parsed text: plain values, the line of each, and the problems that were found."""

    value: Any
    origins: Origins = field(default_factory=Origins)
    problems: list[JobProblem] = field(default_factory=list)
    notices: list[JobProblem] = field(default_factory=list)
    """What the user should know and is not wrong."""


def parse(text: str, *, override: bool = False, at: Path = (), repeated_keys: RepeatedKeys = "refuse") -> Tree:
    """Parse YAML. `at` is the path that the value stands at, `override` whether it came from --set, without lines."""
    try:
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        message = error.problem or error.context or "not valid YAML"
        line, column = (mark.line + 1, mark.column + 1) if mark else (None, None)
        if "\\t" in message:
            message = "a tab; YAML is indented with spaces"
        raise UnreadableError(_located(f"not valid YAML: {message}", line, column, override, at)) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, int(error.position)) + 1
        message = f"character U+{error.character:04X} is not allowed in YAML"
        raise UnreadableError(_located(message, line, None, override, at)) from None
    tree = Tree(value=None)
    if node is not None:
        tree.value = _Conversion(tree, override, repeated_keys).convert(node, at, 0)
    return tree


def _located(message: str, line: int | None, column: int | None, override: bool, at: Path) -> JobProblem:
    if override:
        return JobProblem(key_text(at), message, override=True)
    return JobProblem(key_text(at), message, line, column)


def _too_deep(line: int | None) -> JobProblem:
    return JobProblem("", f"nested more than {MAX_DEPTH} deep, or an alias that contains itself", line)


class _Conversion:
    """Nodes to values. Counts as it goes, since an alias repeats its anchor's nodes without repeating the text."""

    def __init__(self, tree: Tree, override: bool, repeated_keys: RepeatedKeys) -> None:
        self.tree = tree
        self.override = override
        self.repeated_keys = repeated_keys
        self.nodes = 0

    def convert(self, node: Node, path: Path, depth: int) -> Any:
        self.nodes += 1
        line = self._line(node)
        if self.nodes > MAX_NODES:
            raise UnreadableError(JobProblem("", f"more than {MAX_NODES} values once aliases are expanded", line))
        # Composing does not follow aliases: one that contains itself would recurse here without an end.
        if depth > MAX_DEPTH:
            raise UnreadableError(_too_deep(line))
        # The line of the key, if there is one, was put before and is kept: its value may begin on a later line.
        if path not in self.tree.origins:
            self.tree.origins.put(path, line)
        if isinstance(node, MappingNode) and node.tag == _TAG + "map":
            return self._mapping(node, path, depth)
        if isinstance(node, SequenceNode) and node.tag == _TAG + "seq":
            return [self.convert(item, (*path, index), depth + 1) for index, item in enumerate(node.value)]
        if isinstance(node, ScalarNode):
            return self._scalar(node, path)
        return self._problem(path, node, f"{node.tag.replace(_TAG, '!!')} is not used in jobs")

    def _mapping(self, node: MappingNode, path: Path, depth: int) -> dict[str, Any]:
        result: dict[str, Any] = {}
        merges = [(key, value) for key, value in node.value if key.tag == _TAG + "merge"]
        for key, value in merges:
            # The first of several sources wins, so it goes last.
            for source in reversed(value.value) if isinstance(value, SequenceNode) else [value]:
                merged = self.convert(source, path, depth + 1)
                if isinstance(merged, dict):
                    result |= merged
                else:
                    self._problem(path, key, "<< takes a mapping, or a list of mappings")
        first_lines: dict[str, int] = {}
        for key, value in node.value:
            if (key, value) in merges:
                continue
            if not isinstance(key, ScalarNode):
                self._problem(path, key, "a key must be a word, not a list or a mapping")
                continue
            # Keys stay as they are written, whatever scalar they would be: 101 and true are names here.
            name, at = key.value, (*path, key.value)
            if name in first_lines and self.repeated_keys == "refuse":
                self._problem(at, key, f"given twice; the first is on line {first_lines[name]}")
                continue
            if name in first_lines:
                message = f"given twice; this one counts, not that of line {first_lines[name]}"
                self.tree.notices.append(JobProblem(key_text(at), message, self._line(key)))
            first_lines[name] = key.start_mark.line + 1
            # A key that `<<` has brought is overridden: the line of the merged value is not its origin any more.
            self.tree.origins.forget(at)
            self.tree.origins.put(at, self._line(key))
            result[name] = self.convert(value, at, depth + 1)
        return result

    def _scalar(self, node: ScalarNode, path: Path) -> Any:
        text = node.value
        match node.tag.removeprefix(_TAG):
            case "null":
                return None
            case "bool":
                return text.lower() == "true"
            case "int" | "float" as kind:
                try:
                    # ValueError also for more than 4300 digits, whose conversion takes quadratic time.
                    return int(text) if kind == "int" else _float(text)
                except ValueError:
                    return self._problem(path, node, f"not a number, or one with too many digits (tag !!{kind})")
            case "str" | "merge":
                return text
            case other:
                return self._problem(path, node, f"{'' if other.startswith('!') else '!!'}{other} is not used in jobs")

    def _problem(self, path: Path, node: Node, message: str) -> None:
        line = self._line(node)
        self.tree.problems.append(JobProblem(key_text(path), message, line, override=self.override))

    def _line(self, node: Node) -> int | None:
        return None if self.override else int(node.start_mark.line) + 1


def _float(text: str) -> float:
    return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
