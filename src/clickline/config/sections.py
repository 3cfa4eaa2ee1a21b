"""The shape of a job, looked up by path: which keys a place knows, and where else a key of some name is known."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

from clickline.config.base import Section
from clickline.config.job import Job
from clickline.config.origins import Path


def section_at(path: Path) -> type[Section] | None:
    """The section at `path`; list indices are passed over. None where a job has no section, as in `model.params`."""
    section: type[Section] | None = Job
    for part in path:
        if section is None or (isinstance(part, str) and part not in section.model_fields):
            return None
        if isinstance(part, str):
            section = section_of(section.model_fields[part].annotation)
    return section


def section_of(annotation: Any) -> type[Section] | None:
    """The section inside a type such as `list[Slot]` or `Admission | None`."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    found = (section_of(argument) for argument in get_args(annotation))
    return next((section for section in found if section is not None), None)


def places_of(name: str) -> list[str]:
    """Where a job has a key called `name`, lists aside: batch_size is at train.batch_size."""
    return [path for path in _key_paths(Job, "") if path.rpartition(".")[2] == name]


def _key_paths(section: type[Section], prefix: str) -> Iterator[str]:
    for name, field in section.model_fields.items():
        yield prefix + name
        if isinstance(field.default, Section):
            yield from _key_paths(type(field.default), f"{prefix}{name}.")
