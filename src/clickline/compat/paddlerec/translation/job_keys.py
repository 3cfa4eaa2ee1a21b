"""The keys of a job in the making, each with the line of config.yaml that it came from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from clickline.compat.paddlerec.reading.hyper_parameters import not_carried
from clickline.config.loading.origins import Origins, key_path, key_text
from clickline.config.loading.origins import Path as Keys
from clickline.config.loading.yaml_lines import Tree
from clickline.config.section import Section
from clickline.errors import JobProblem


class JobKeys:
    """A job in the making."""

    def __init__(self, origins: Origins) -> None:
        self.tree = Tree(value={})
        self.notices: list[JobProblem] = []
        self.problems: list[JobProblem] = []
        self._origins = origins

    def put(self, key: str, value: Any, source: Keys) -> None:
        """Set a key of the job; `source` is the path of the key in config.yaml that it follows from."""
        path = key_path(key) or ()
        place = self.tree.value
        for part in path[:-1]:
            place = place.setdefault(part, {})
        place[path[-1]] = value
        line, _ = self._origins.nearest(source)
        for length in range(1, len(path)):
            if path[:length] not in self.tree.origins:
                self.tree.origins.put(path[:length], line)
        for below in _paths(value, path):
            self.tree.origins.put(below, line)

    def tell(self, source: Keys, message: str) -> None:
        """Report what is other than it was."""
        self.notices.append(self._located(source, message))

    def refuse(self, source: Keys, message: str) -> None:
        """Report what makes a job impossible."""
        self.problems.append(self._located(source, message))

    def tell_not_carried(self, section: Section, source: Keys) -> None:
        """Report the keys of a section that have no effect here."""
        for name, reason in not_carried(section):
            self.tell((*source, name), f"not carried: {reason}")

    def _located(self, source: Keys, message: str) -> JobProblem:
        line, override = self._origins.nearest(source)
        return JobProblem(key_text(source), message, line, override=override)


def _paths(value: Any, path: Keys) -> Iterator[Keys]:
    """The path of a value and of everything in it."""
    yield path
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _paths(inner, (*path, name))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _paths(inner, (*path, index))
