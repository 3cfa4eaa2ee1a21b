"""docs/reference/job.md and job.schema.json, made from the types, so that neither can say anything else.

    python -m clickline.config.reference docs/reference

The schema is for editors: one that speaks YAML completes keys and underlines mistakes while a job is written.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from clickline.config.base import Section
from clickline.config.job import Job
from clickline.config.sections import section_of

_TYPES = {
    "string": "text",
    "integer": "integer",
    "number": "number",
    "boolean": "true or false",
    "object": "mapping",
    "null": "nothing",
}
_HEAD = """\
# The job

Made from the types by `python -m clickline.config.reference docs/reference`; edit the types, not this file.

A job is one YAML file. Every key has a default, so a job says only what differs; an unknown key is an error.
`clickline validate job.yaml` finds all mistakes at once, `clickline explain job.yaml` shows every value and where it
came from, and `--set KEY=VALUE` changes one value, with the paths below as keys: `--set train.epochs=3`,
`--set data.train[0]=day_0.gz`.

Scalars follow YAML 1.2: only `true` and `false` are booleans, `1e-3` is a number, `007` and `1_000` are text. A
secret is written as `${env:NAME}`: it is looked up where and when it is used, and printed only as that reference.

Editors complete and check a job that begins with
`# yaml-language-server: $schema=<path or address of job.schema.json>`.
"""


def schema() -> dict[str, Any]:
    """The JSON Schema of a job."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | Job.model_json_schema()


def page() -> str:
    """The reference as Markdown: one table per section."""
    whole = schema()
    return _HEAD + "".join(_tables(Job, Job(), "", "The run itself.", whole["$defs"] | {Job.__name__: whole}))


def write(directory: Path) -> list[Path]:
    """Write both files; gives back their paths."""
    directory.mkdir(parents=True, exist_ok=True)
    written = {"job.md": page(), "job.schema.json": json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"}
    for name, text in written.items():
        (directory / name).write_text(text, encoding="utf-8")
    return [directory / name for name in written]


def _tables(
    section: type[Section], defaults: Section | None, path: str, sentence: str, definitions: Mapping[str, Any]
) -> Iterator[str]:
    properties = definitions[section.__name__]["properties"]
    below = {name: inner for name, field in section.model_fields.items() if (inner := section_of(field.annotation))}
    rows: list[str] = []
    inner_tables: list[str] = []
    for name, field in section.model_fields.items():
        entry = properties[name]
        default = getattr(defaults, name) if defaults is not None else field.get_default()
        key = f"{path}.{name}" if path else name
        description = str(field.description)
        if inner := below.get(name):
            is_list = entry.get("type") == "array"
            inner_path = f"{key}[]" if is_list else key
            # A section that may be left out has no defaults of its own place, only those of its type.
            inner_default = default if isinstance(default, Section) else None
            if inner_default is not None or is_list:
                inner_tables += _tables(inner, inner_default, inner_path, description, definitions)
            if inner_default is not None:
                continue
        required = field.is_required()
        cells = [f"`{name}`", _type(entry), "required" if required else _default(default), _allowed(entry), description]
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n")
    yield f"\n## {path or 'Top level'}\n\n{sentence}\n"
    if rows:
        yield "\n| key | type | default | allowed | meaning |\n|---|---|---|---|---|\n"
        yield from rows
    yield from inner_tables


def _type(entry: Mapping[str, Any]) -> str:
    if "$ref" in entry:
        return "mapping"
    if "anyOf" in entry:
        return " or ".join(_type(choice) for choice in entry["anyOf"])
    if entry["type"] == "array":
        return f"list of {_type(entry['items'])}"
    return _TYPES[entry["type"]]


def _default(value: Any) -> str:
    return "nothing" if value is None else f"`{json.dumps(value, ensure_ascii=False)}`"


def _allowed(entry: Mapping[str, Any]) -> str:
    parts = []
    if "enum" in entry:
        parts.append(", ".join(f"`{choice}`" for choice in entry["enum"]))
    if "minimum" in entry and "maximum" in entry:
        parts.append(f"{_number(entry['minimum'])} to {_number(entry['maximum'])}")
        entry = {key: value for key, value in entry.items() if key not in ("minimum", "maximum")}
    for keyword, words in (
        ("minimum", "at least {}"),
        ("exclusiveMinimum", "more than {}"),
        ("maximum", "at most {}"),
        ("exclusiveMaximum", "less than {}"),
        ("minItems", "at least {} of them"),
        ("maxItems", "at most {} of them"),
        ("maxLength", "at most {} long"),
    ):
        if keyword in entry:
            parts.append(words.format(_number(entry[keyword])))
    for inner in (entry.get("items"), *entry.get("anyOf", ())):
        if inner and "$ref" not in inner and (allowed := _allowed(inner)) and allowed not in parts:
            parts.append(allowed)
    return ", ".join(parts)


def _number(value: float) -> str:
    if value == int(value) and value >= 10**9:
        whole = int(value)
        if whole & (whole - 1) == 0:
            return f"2^{whole.bit_length() - 1}"
    return f"{value:g}".replace("e+", "e") if abs(value) >= 10**9 else f"{value}"


if __name__ == "__main__":
    for file in write(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/reference")):
        print(file)
