"""The reference is made from the types: it is current, and no key goes without a sentence, a default and a range."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clickline.cli.settings_reference import SERVE, TRANSFER, VALUES
from clickline.config import Job
from clickline.config.reference import JOB, SettingsReference

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
REFERENCES = (JOB, SERVE, TRANSFER, VALUES)
SECTIONS: dict[str, Any] = {
    name: entry
    for reference in REFERENCES
    for name, entry in (reference.schema()["$defs"] | {reference.root.__name__: reference.schema()}).items()
}
KEYS = [(section, key) for section, entry in SECTIONS.items() for key in entry["properties"]]
NO_DEFAULT = {
    *(("Slot", "name"), ("Dense", "name"), ("Host", "host")),
    *(("SecretVariable", "variable"), ("SecretVariable", "secret"), ("SecretVariable", "key")),
    *(("VolumeMount", "claim"), ("VolumeMount", "path")),
    *(
        ("ServeConfig", "models"),
        ("ModelSource", "store"),
        ("ServiceSettings", "cube"),
        ("ServiceSettings", "shards"),
        ("SplitRule", "variants"),
    ),
    *(("VariantWeight", "model"), ("ShadowRule", "model"), ("Tls", "certificate"), ("Tls", "key")),
    *(("TransferSettings", f"{name}_address") for name in ("donefile", "output", "tmp")),
    ("TransferSettings", "dict_name"),
    *(("ReplicaSettings", "agent"), ("ReplicaSettings", "cube")),
}


@pytest.mark.parametrize("reference", REFERENCES, ids=lambda reference: reference.name)
def test_the_files_are_current(tmp_path: Path, reference: SettingsReference) -> None:
    for file in reference.write(tmp_path):
        assert (REFERENCE / file.name).read_text(encoding="utf-8") == file.read_text(encoding="utf-8"), "make reference"


@pytest.mark.parametrize(("section", "key"), KEYS)
def test_every_key_has_a_sentence(section: str, key: str) -> None:
    sentence = SECTIONS[section]["properties"][key].get("description", "")
    assert len(sentence) >= 10
    assert sentence.endswith((".", "…"))


@pytest.mark.parametrize(("section", "key"), KEYS)
def test_every_key_has_a_default_but_names_and_addresses(section: str, key: str) -> None:
    required = SECTIONS[section].get("required", [])
    assert (key in required) == ((section, key) in NO_DEFAULT)


def numbers(entry: Any) -> Iterator[dict[str, Any]]:
    if isinstance(entry, dict):
        if entry.get("type") in ("integer", "number"):
            yield entry
        for inner in entry.values():
            yield from numbers(inner)
    elif isinstance(entry, list):
        types = [choice.get("type") for choice in entry if isinstance(choice, dict)]
        if not {"string", "integer"} <= set(types):  # an integer that stands for a name has no range
            for inner in entry:
                yield from numbers(inner)


@pytest.mark.parametrize(("section", "key"), KEYS)
def test_every_number_has_a_range(section: str, key: str) -> None:
    for number in numbers(SECTIONS[section]["properties"][key]):
        assert {"minimum", "exclusiveMinimum"} & set(number)
        assert {"maximum", "exclusiveMaximum"} & set(number)


def test_a_number_without_a_range_would_be_noticed() -> None:
    assert list(numbers({"anyOf": [{"type": "number"}, {"type": "null"}]})) == [{"type": "number"}]


def test_the_page_has_the_defaults_of_the_place_not_of_the_type() -> None:
    tables = dict(part.split("\n", 1) for part in JOB.page().split("\n## ")[1:])
    assert '| `name` | text | `"adagrad"` |' in tables["tables.embedding.optimizer"]
    assert '| `name` | text | `"ftrl"` |' in tables["tables.linear.optimizer"]
    assert "| `name` | text or integer | required |" in tables["features.slots[]"]


def test_the_schema_forbids_unknown_keys_everywhere() -> None:
    assert all(entry["additionalProperties"] is False for entry in SECTIONS.values())
    assert json.loads((REFERENCE / "job.schema.json").read_text(encoding="utf-8"))["title"] == Job.__name__
