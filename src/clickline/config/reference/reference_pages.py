"""The reference of a settings file, generated from its types so that the two cannot differ: a page and a schema."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clickline.config.loading.key_paths import fields_by_key, section_of
from clickline.config.reference.attribute_docstrings import attribute_docstrings
from clickline.config.section import Section

_TYPES = {
    "string": "text",
    "integer": "integer",
    "number": "number",
    "boolean": "true or false",
    "object": "mapping",
    "null": "nothing",
}


@dataclass(frozen=True, slots=True)
class SettingsReference:
    """The page and the schema of one kind of file."""

    name: str
    """Of the files: NAME.md and NAME.schema.json."""
    root: type[Section]
    head: str
    """What the page begins with."""
    top: str = "The file itself."
    """What the keys that stand in no section are about."""

    def schema(self) -> Mapping[str, Any]:
        """The JSON Schema."""
        whole = self.root.model_json_schema()
        for section in _sections(self.root):
            place = whole if section is self.root else whole["$defs"][section.__name__]
            texts = attribute_docstrings(section)
            for (name, field), key in zip(section.model_fields.items(), fields_by_key(section), strict=True):
                text = field.description or texts.get(name)
                if text:
                    place["properties"][key] = dict(sorted((place["properties"][key] | {"description": text}).items()))
        return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | whole

    def page(self) -> str:
        """The reference as Markdown: one table per section."""
        whole = self.schema()
        definitions = whole["$defs"] | {self.root.__name__: whole}
        return self.head + "".join(_tables(self.root, None, "", self.top, definitions))

    def write(self, directory: Path) -> list[Path]:
        """Write both files; gives back their paths."""
        directory.mkdir(parents=True, exist_ok=True)
        schema = json.dumps(self.schema(), indent=2, ensure_ascii=False) + "\n"
        written = {f"{self.name}.md": self.page(), f"{self.name}.schema.json": schema}
        for name, text in written.items():
            (directory / name).write_text(text, encoding="utf-8")
        return [directory / name for name in written]


def _sections(root: type[Section]) -> set[type[Section]]:
    """A section and all below it."""
    below = [inner for field in root.model_fields.values() if (inner := section_of(field.annotation))]
    return {root}.union(*(_sections(inner) for inner in below))


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
        description = " ".join(str(entry.get("description")).split())
        if inner := below.get(name):
            # A section that may be left out has no defaults of its own place, only those of its type.
            inner_default = default if isinstance(default, Section) else None
            inner_tables += _tables(inner, inner_default, key + _inside(entry), description, definitions)
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


def _inside(entry: Mapping[str, Any]) -> str:
    """What follows a key in the path to a section: `[]` for a list, `.NAME` for a mapping by the user's own names."""
    if entry.get("type") == "array":
        return "[]" + _inside(entry["items"])
    return ".NAME" if {"additionalProperties", "patternProperties"} & entry.keys() else ""


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
    # Limits such as 2^63 are shown as powers: %g would round them to six digits.
    if value == int(value) and value >= 10**9:
        whole = int(value)
        if whole & (whole - 1) == 0:
            return f"2^{whole.bit_length() - 1}"
    return f"{value:g}".replace("e+", "e") if abs(value) >= 10**9 else f"{value}"
