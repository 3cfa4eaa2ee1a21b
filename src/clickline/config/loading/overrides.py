"""--set KEY=VALUE: one value changed on top of the file.

KEY is a path such as train.epochs or features.slots[3].pooling, VALUE is YAML. A path is only followed here, not
judged: whether the job knows such a key is found out when the whole is checked, with the same words as for the file.
"""

from __future__ import annotations

import re
from typing import Any

from clickline.config.job import Job
from clickline.config.loading.origins import Path, key_path, key_text
from clickline.config.loading.yaml_lines import Tree, UnreadableError, parse
from clickline.config.section import Section
from clickline.errors import JobProblem


class _RefusedError(Exception):
    """Why a value cannot be put at its path."""


def override(tree: Tree, argument: str) -> None:
    """Apply KEY=VALUE to `tree`. What is wrong with it is added to the tree's problems."""
    key, equals, text = argument.partition("=")
    path = key_path(key.strip())
    if not equals or path is None:
        # Only what looks like a key is repeated: the rest may be a secret, and this goes to a terminal or a log.
        looks_like_key = re.match(r"[\w.\[\]-]*", argument)
        shown = looks_like_key.group() if looks_like_key else ""
        message = "expected KEY=VALUE, such as train.epochs=3 or data.train[0]=day_0.gz"
        tree.problems.append(JobProblem(shown, message, override=True))
        return
    try:
        given = parse(text, override=True, at=path) if text.strip() else Tree(value="")
        given.origins.put(path, None)
        # Containers along the path are copied: an override that is refused halfway changes nothing.
        tree.value = _placed(tree.value, path, (), given.value)
    except UnreadableError as error:
        tree.problems.append(error.problem)
        return
    except _RefusedError as error:
        tree.problems.append(JobProblem(key_text(path), str(error), override=True))
        return
    tree.problems += given.problems
    # The lines of the replaced value go first: keys that the new one does not give are defaults now.
    tree.origins.forget(path)
    tree.origins.update(given.origins)
    for length in range(1, len(path)):
        # What --set brought into being, or changed an element of, came from it as well.
        if path[:length] not in tree.origins or isinstance(path[length], int):
            tree.origins.put(path[:length], None)


def _placed(current: Any, path: Path, done: Path, value: Any) -> Any:
    """`current`, which stands at `done`, with `value` put at `path` below it."""
    if not path:
        return value
    part = path[0]
    if isinstance(part, int):
        return _placed_in_list(current, path, done, value)
    if current is None:
        current = {}
    elif isinstance(current, str | int) and done and isinstance(done[-1], int):
        current = {"name": current}  # a plain `C1` in a list stands for {name: C1}
    if not isinstance(current, dict):
        raise _RefusedError(f"{key_text(done)} holds no keys")
    return current | {part: _placed(current.get(part), path[1:], (*done, part), value)}


def _placed_in_list(current: Any, path: Path, done: Path, value: Any) -> list[Any]:
    index = path[0]
    assert isinstance(index, int)  # noqa: S101
    if current is None:
        current = _default_list(done)
    elif isinstance(current, str):
        current = [current]  # a single path stands for a list of one
    if not isinstance(current, list):
        raise _RefusedError(f"{key_text(done)} is not a list")
    if index > len(current):
        raise _RefusedError(f"{key_text(done)} has {len(current)} elements; [{len(current)}] would add one")
    before = current[index] if index < len(current) else None
    return [*current[:index], _placed(before, path[1:], (*done, index), value), *current[index + 1 :]]


def _default_list(path: Path) -> list[Any]:
    """The list that a job has at `path` by default, so that changing one element keeps the others."""
    place: Any = Job()
    for part in path:
        place = getattr(place, str(part), None) if isinstance(place, Section) else None
    return list(place) if isinstance(place, list) else []
