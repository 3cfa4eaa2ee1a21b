"""Records which keys of the job a process reads, and in which module: `$KEY_TRACE/PID` gets a line for each.

Python runs this file at its start where this directory is on PYTHONPATH. What the checks before a run read does not
count: they look at every key.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from clickline.config.section import Section

_file = Path(os.environ["KEY_TRACE"]) / str(os.getpid())
_paths: dict[int, str] = {}
_kept: list[Any] = []
"""Sections whose identity is in use, so that no other object gets it."""
_seen: set[tuple[str, str]] = set()
_plain = Section.__getattribute__


def _remember(value: Any, path: str) -> None:
    if isinstance(value, Section):
        if id(value) not in _paths:
            _kept.append(value)
        _paths[id(value)] = path
    elif isinstance(value, list):
        for one in value:
            _remember(one, f"{path}[]")


def _traced(section: Section, name: str) -> Any:
    value = _plain(section, name)
    if name in type(section).__pydantic_fields__:
        module = sys._getframe(1).f_globals.get("__name__", "")
        around = _paths.get(id(section), "" if type(section).__name__ == "Job" else f"{type(section).__name__}")
        path = f"{around}.{name}" if around else name
        _remember(value, path)
        checking = module.startswith(("clickline.config", "clickline.train.preflight", "clickline.data.schema_checks"))
        if module.startswith("clickline.") and not checking and (path, module) not in _seen:
            _seen.add((path, module))
            with _file.open("a", encoding="utf-8") as stream:
                stream.write(f"{path}\t{module}\n")
    return value


Section.__getattribute__ = _traced  # type: ignore[method-assign,assignment]
