"""Versions exported for ElasticCTR's Cube: what they hold, and that a cube serves them with the rows they had."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from clickline import _native
from clickline.compat.cube import cube_donefiles
from clickline.compat.cube.cube_export import export_version
from clickline.compat.cube.row_text import from_text
from clickline.compat.cube.sequence_files import read_all
from clickline.errors import DataError
from clickline.publish.publisher import Settings, publish
from clickline.versions.store import open_store
from support.cubes.cube_processes import NAME, CubeProcesses
from support.processes import run
from support.versions.version_stores import VersionStore, keys_from, rows_of

Values = dict[int, bytes]


@pytest.fixture
def store(tmp_path: Path) -> VersionStore:
    """A base, a delta with changed, new and deleted rows, and a delta that only deletes."""
    made = VersionStore(tmp_path / "store")
    made.base(keys_from(1, 100), tables=("embedding", "linear"))
    made.delta(keys_from(90, 120), keys_from(10, 20), tables=("embedding", "linear"))
    made.delta(keys_from(0, 0), keys_from(20, 25), tables=("embedding", "linear"))
    return made


def values_of(path: Path) -> Values:
    keys, offsets, content = read_all(path)
    whole = content.tobytes()
    return {
        key: whole[begin:end]
        for key, begin, end in zip(keys.tolist(), offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
    }


def encoded(keys: NDArray[np.uint64], version: int) -> Values:
    return {key: row.tobytes() for key, row in zip(keys.tolist(), rows_of(keys, version), strict=True)}


def test_a_base_and_its_deltas_become_a_line_and_a_directory_each(store: VersionStore, tmp_path: Path) -> None:
    out = tmp_path / "out"
    products = export_version(open_store(store.path), 3, out)
    assert [(one.table, one.kind, one.id, one.key, one.rows, one.deleted) for one in products] == [
        (table, *facts)
        for table in ("embedding", "linear")
        for facts in (("base", 1, 1, 99, 0), ("patch", 2, 1, 30, 10), ("patch", 3, 1, 0, 5))
    ]
    place = str(out / "embedding" / "donefile")
    lines = [*cube_donefiles.read(place, "base"), *cube_donefiles.read(place, "patch")]
    assert [(line.id, line.key, line.input) for line in lines] == [
        (1, 1, str(out / "embedding/1/base")),
        (2, 1, str(out / "embedding/2/patch")),
        (3, 1, str(out / "embedding/3/patch")),
    ]
    assert values_of(out / "embedding/1/base") == encoded(keys_from(1, 100), 1)
    gone = dict.fromkeys(range(10, 20), b"")
    assert values_of(out / "embedding/2/patch") == encoded(keys_from(90, 120), 2) | gone


def test_the_next_delta_adds_one_product(store: VersionStore, tmp_path: Path) -> None:
    out, source = tmp_path / "out", open_store(store.path)
    export_version(source, 2, out)
    written = (out / "embedding/1/base/feature").stat()
    assert [one.id for one in export_version(source, 3, out)] == [3, 3]
    assert export_version(source, 3, out) == []
    assert (out / "embedding/1/base/feature").stat().st_mtime_ns == written.st_mtime_ns
    with pytest.raises(DataError, match=r"has version 3 already, and readers of it never go back to 2: export to"):
        export_version(source, 2, out)


@pytest.mark.heavy
def test_a_cube_serves_what_was_exported_with_the_rows_of_the_version(store: VersionStore, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export_version(open_store(store.path), 1, out)
    cube = CubeProcesses(tmp_path / "cube", VersionStore(out / "embedding" / "donefile"), shards=2, copies=1)
    keys = keys_from(0, 150)
    try:
        cube.start_all()
        for version in (1, 2, 3):  # by exports of single deltas too
            export_version(open_store(store.path), version, out)
            cube.await_all(version)
            expected = store.expected[version]["embedding"]
            with cube.connect() as client:
                found = client.get(NAME, keys, version=version)
            assert found.code == 0
            assert [key for key, status in zip(keys.tolist(), found.status, strict=True) if status == 0] == sorted(
                expected
            )
            there = found.status == 0
            wrote = [expected[key] for key in keys[there].tolist()]
            got = np.ascontiguousarray(found.values[there]).view(np.float32).reshape(len(wrote), -1)
            assert np.array_equal(got, rows_of(keys[there], wrote))
    finally:
        cube.close()


def test_text_is_read_back_exactly_with_deleted_keys_empty(store: VersionStore, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export_version(open_store(store.path), 2, out, format="text")
    assert not (out / "embedding" / "donefile").exists()  # of what cannot be read by a Cube
    for kind, version in (("base", 1), ("patch", 2)):
        from_text(out / f"embedding/{version}/{kind}/feature", tmp_path / kind, values="fp32")
    export_version(open_store(store.path), 2, tmp_path / "sequences")
    assert values_of(tmp_path / "base") == values_of(tmp_path / "sequences/embedding/1/base")
    assert values_of(tmp_path / "patch") == values_of(tmp_path / "sequences/embedding/2/patch")


@pytest.mark.heavy
@pytest.mark.parametrize("dtype", ["fp16", "u8"])
def test_short_rows_are_written_as_a_cube_knows_them(dtype: str, trained_model: Path, tmp_path: Path) -> None:
    """8 bits as minimum, maximum and bytes; 16 bits, which it does not know, as 32."""
    store = open_store(tmp_path / "store")
    publish(trained_model, store, Settings(dtype=dtype, sample_rows=16, max_auc_drop=1.0))
    export_version(store, 1, tmp_path / "out")
    rows = _native.Dictionary(tmp_path / "store/v0000000001/embedding.dict")
    decoded = _native.decode_rows(rows.values(), rows.dtype, rows.dim)
    for key, number, value in zip(rows.keys().tolist(), decoded, values_of(tmp_path / "out/embedding/1/base").values()):  # noqa: B905
        if dtype == "u8":
            low, high = np.frombuffer(value[:8], np.float32)
            steps = np.frombuffer(value[8:], np.uint8).astype(np.float32)
            got = low + steps * (high - low) / np.float32(255)
        else:
            got = np.frombuffer(value, np.float32)
        assert np.allclose(got, number, atol=1e-6), key


def test_the_donefile_names_what_readers_see(store: VersionStore, tmp_path: Path) -> None:
    result = run(
        "export", store.path / "v0000000001", "--to", tmp_path / "out", "--prefix", "/data/ctr_cube/", "--json"
    )
    assert result.returncode == 0, result.stderr
    answer = json.loads(result.stdout)
    assert (answer["version"], answer["format"]) == (1, "sequencefile")
    assert [one["input"] for one in answer["products"]] == [
        "/data/ctr_cube/embedding/1/base",
        "/data/ctr_cube/linear/1/base",
    ]
    (line,) = (tmp_path / "out/embedding/donefile/base.txt").read_text().splitlines()
    assert json.loads(line) == {"id": "1", "key": "1", "input": "/data/ctr_cube/embedding/1/base"}


def test_what_a_killed_export_left_is_written_again(store: VersionStore, tmp_path: Path) -> None:
    """Killed while it writes, and after the rename but before the donefile's line."""
    out = tmp_path / "out" / "embedding"
    (out / ".writing-1").mkdir(parents=True)
    (out / ".writing-1" / "feature").write_bytes(b"half")
    (out / "1" / "base").mkdir(parents=True)
    (out / "1" / "base" / "of-another-time").write_bytes(b"SEQ")
    export_version(open_store(store.path), 1, tmp_path / "out")
    assert sorted(path.name for path in out.iterdir()) == ["1", "donefile"]
    assert values_of(out / "1" / "base") == encoded(keys_from(1, 100), 1)


@pytest.mark.parametrize("why", ["no such version", "no such store", "a file in the way", "two numbers"])
def test_what_cannot_be_exported_leaves_nothing_and_says_why(why: str, store: VersionStore, tmp_path: Path) -> None:
    out = tmp_path / "out"
    if why == "a file in the way":
        out.write_text("a file")
    arguments, code, message = {
        "no such version": ([store.path, "9"], 8, "no version 9; there are: 1, 2, 3"),
        "no such store": ([tmp_path / "none", "1"], 8, "there is no such store"),
        "a file in the way": ([store.path, "1"], 4, "cannot be written"),
        "two numbers": ([store.path / "v0000000002", "1"], 2, "is version 2, not 1"),
    }[why]
    result = run("export", *arguments, "--to", out)
    assert (result.returncode, message in " ".join(result.stderr.split())) == (code, True), result.stderr
    assert not out.is_dir()
