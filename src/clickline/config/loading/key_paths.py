"""The shape of a job, or of another file of settings, looked up by path: which keys a place knows, and where else a key
of some name is known."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args, get_origin

from pydantic.fields import FieldInfo

from clickline.config.job import Job
from clickline.config.loading.origins import Path
from clickline.config.section import Section


def section_at(path: Path, root: type[Section] = Job) -> type[Section] | None:
    """The section at `path`; list indices and names that the user gives to sections are passed over.

    None where there is no section, as in `model.params`.
    """
    section: type[Section] | None = root
    named = False
    for part in path:
        if named:
            named = False
            continue
        if section is None:
            return None
        if isinstance(part, str):
            fields = fields_by_key(section)
            if part not in fields:
                return None
            annotation = fields[part].annotation
            # In a dict of sections the next part is a name that the user chose, and no field.
            section, named = section_of(annotation), get_origin(annotation) is dict
    return section


def fields_by_key(section: type[Section]) -> dict[str, FieldInfo]:
    """The fields of a section by their keys in a file, which are their names unless those are words of Python."""
    return {field.alias or name: field for name, field in section.model_fields.items()}


def section_of(annotation: Any) -> type[Section] | None:
    """The section inside a type such as `list[Slot]` or `Admission | None`."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    found = (section_of(argument) for argument in get_args(annotation))
    return next((section for section in found if section is not None), None)


def places_of(name: str, root: type[Section] = Job) -> list[str]:
    """Where a job has a key called `name`, lists aside: batch_size is at train.batch_size."""
    return [path for path in _key_paths(root, "") if path.rpartition(".")[2] == name]


def _key_paths(section: type[Section], prefix: str) -> Iterator[str]:
    for name, field in section.model_fields.items():
        yield prefix + name
        if isinstance(field.default, Section):
            yield from _key_paths(type(field.default), f"{prefix}{name}.")


def key_patterns(root: type[Section] = Job) -> Iterator[str]:
    """Every key that holds a value, wherever it stands: features.slots[].pooling for that of any slot."""
    for name, field in root.model_fields.items():
        inner = section_of(field.annotation)
        if inner is None:
            yield name
            continue
        through_list = get_origin(field.annotation) is list
        if through_list:
            yield name
        yield from (f"{name}{'[]' if through_list else ''}.{key}" for key in key_patterns(inner))
