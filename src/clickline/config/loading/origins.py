"""Where each value of a job came from: a line of the file, --set, or nowhere, which means its default."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from clickline.config.job import Job
from clickline.config.section import Section

Path = tuple[str | int, ...]
_PART = re.compile(r"([^.\[\]\s]+)((?:\[\d{1,6}\])*)")


def key_text(path: Path) -> str:
    """("features", "slots", 3, "pooling") as features.slots[3].pooling."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def key_path(text: str) -> Path | None:
    """features.slots[3].pooling as ("features", "slots", 3, "pooling"); None if that is not how a key looks."""
    path: list[str | int] = []
    for part in text.split("."):
        match = _PART.fullmatch(part)
        if match is None:
            return None
        path += [match[1], *(int(index) for index in re.findall(r"\d+", match[2]))]
    return tuple(path)


class Origins:
    """The line of every key that was given, None for one given by --set."""

    def __init__(self) -> None:
        self._lines: dict[Path, int | None] = {}

    def __contains__(self, path: Path) -> bool:
        return path in self._lines

    def put(self, path: Path, line: int | None) -> None:
        self._lines[path] = line

    def forget(self, path: Path) -> None:
        """Drop what is known of `path` and everything below: its value was replaced."""
        # Everything around a known path is known as well, so an unknown one has nothing below it: the scan over all
        # paths is left out for nearly every key of a file.
        if path in self._lines:
            for known in [known for known in self._lines if known[: len(path)] == path]:
                del self._lines[known]

    def move(self, path: Path, to: Path) -> None:
        """Let what is known of `path` and everything below be known of `to`."""
        for known in [known for known in self._lines if known[: len(path)] == path]:
            self._lines[(*to, *known[len(path) :])] = self._lines.pop(known)

    def update(self, other: Origins) -> None:
        self._lines.update(other._lines)

    def nearest(self, path: Path) -> tuple[int | None, bool]:
        """(line, whether by --set) of `path`, or of the closest thing around it that was given."""
        for length in range(len(path), -1, -1):
            if path[:length] in self._lines:
                line = self._lines[path[:length]]
                return line, line is None
        return None, False

    def describe(self, path: Path) -> str:
        """`file line 12`, `override` or `default`."""
        given = path
        if path not in self._lines and path[-1] == "name" and isinstance(path[-2:][0], int):
            # A plain `C1` in a list stands for {name: C1}: the name was given, though no such key was.
            given = path[:-1]
        if given not in self._lines:
            return "default"
        line = self._lines[given]
        return "override" if line is None else f"file line {line}"


def leaves(job: Job) -> Iterator[tuple[Path, Any]]:
    """Every key of a job that holds a value rather than further keys, in the order of definition.

    A list of plain values is one value; a list of sections is taken apart, and so is a mapping.
    """
    yield from _below(job, ())


def _below(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, Section):
        for name in type(value).model_fields:
            yield from _below(getattr(value, name), (*path, name))
    elif isinstance(value, list) and any(isinstance(item, Section) for item in value):
        for index, item in enumerate(value):
            yield from _below(item, (*path, index))
    elif isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _below(inner, (*path, name))
    else:
        yield path, value
