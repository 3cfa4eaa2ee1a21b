"""Whatever bytes a donefile, manifest or sample holds, reading them ends in a result or in a VersionError.

`CLICKLINE_FUZZ_EXAMPLES=100000 pytest tests/versions/test_hostile_versions.py` tries that many of each.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickline.errors import VersionError
from clickline.versions import donefile, manifest
from clickline.versions.chain import opened
from clickline.versions.golden_sample import read_sample
from clickline.versions.network import embeddings_of
from clickline.versions.store import Store
from support.fuzz.budget import budgeted
from support.versions.donefile_lines import line, text
from support.versions.plain_manifests import plain

budget = budgeted(default=150)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
GOOD = text(line(1), line(2, kind="delta"), line(3), {"rollback_to": 2, "time": 4}, {"removed": [3], "time": 5})


def mutated(content: bytes, cuts: list[tuple[int, int, bytes]]) -> bytes:
    """With pieces of it replaced."""
    for place, length, new in cuts:
        at = place % (len(content) + 1)
        content = content[:at] + new + content[at + length :]
    return content


edits = st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 30), st.binary(max_size=6)), min_size=1, max_size=4)


@budget
@given(edits)
def test_a_donefile_with_bytes_changed(cuts: list[tuple[int, int, bytes]]) -> None:
    try:
        done = donefile.parse(mutated(GOOD, cuts))
    except VersionError as error:
        assert "versions.jsonl" in str(error)
    else:
        assert done.serving is None or done.serving in done.entries


@budget
@given(st.lists(st.sampled_from(["version", "kind", "parent", "manifest", "sha256", "time"]), max_size=3), st.data())
def test_a_donefile_with_other_values(keys: list[str], data: st.DataObject) -> None:
    bad = line(2, **{key: data.draw(values) for key in keys if key != "kind"})
    try:
        donefile.parse(text(line(1), bad))
    except VersionError as error:
        assert "line 2" in str(error)


def paths(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(path for key, one in inner for path in paths(one, (*at, key)))]


PLACES = [path for path in paths(plain()) if path]


@budget
@given(st.sampled_from(PLACES), values)
def test_a_manifest_with_another_value(path: tuple[Any, ...], value: Any) -> None:
    changed: Any = json.loads(json.dumps(plain()))
    inside = changed
    for key in path[:-1]:
        inside = inside[key]
    inside[path[-1]] = value
    try:
        found = manifest.parse(json.dumps(changed).encode(), where="here")
    except VersionError as error:
        assert str(error).startswith("here: ")
    else:
        names = [found.network, found.sample, *found.files, *(f for t in found.tables.values() for f in t.files)]
        assert not [name for name in names if "/" in name or name.startswith(".")]


@budget
@given(edits)
def test_a_manifest_with_bytes_changed(cuts: list[tuple[int, int, bytes]]) -> None:
    try:
        manifest.parse(mutated(json.dumps(plain()).encode(), cuts), where="here")
    except VersionError as error:
        assert str(error).startswith("here: ")


@budget
@given(edits)
def test_a_sample_with_bytes_changed(filled: Store, tmp_path: Path, cuts: list[tuple[int, int, bytes]]) -> None:
    with opened(filled, 1) as chain:
        schema, content = chain.schema, (chain.place / chain.manifest.sample).read_bytes()
    head = 8 + int.from_bytes(content[:8], "little")
    (tmp_path / "sample").write_bytes(mutated(content[:head], cuts) + content[head:])
    try:
        sample = read_sample(tmp_path / "sample", schema=schema)
    except VersionError as error:
        assert "sample: " in str(error)
    else:
        assert sample.batch.dense.shape == (len(sample.batch), schema.dense_width)


@budget
@given(st.sampled_from(["table", "slots", "shape", "sequence_length", "dtype"]), values)
def test_inputs_with_another_value(filled: Store, key: str, value: Any) -> None:
    with opened(filled, 1) as chain:
        schema, inputs = chain.schema, {name: dict(facts) for name, facts in chain.manifest.inputs.items()}
    inputs["embedding"][key] = value
    try:
        found = embeddings_of(inputs, schema)
    except VersionError as error:
        assert str(error).startswith("inputs.embedding: ")
    else:
        assert all(slot in schema.slot_names for one in found.values() for slot in one.slots)


@pytest.mark.parametrize(
    "name", ["../secret", "a/b", "/etc/passwd", ".hidden", "", "x" * 300, "a\nb", "a\0b", "..", "ä", "network.onnx\n"]
)
def test_no_name_leads_out_of_the_directory(name: str) -> None:
    facts = plain(network=name)
    facts["files"][name] = facts["files"]["network.onnx"]
    with pytest.raises(VersionError, match="here: "):
        manifest.parse(json.dumps(facts).encode(), where="here")
