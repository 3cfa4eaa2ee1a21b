"""Every byte of a version is covered: whatever is damaged is found and named, and what is served stays."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from clickline.errors import VersionError
from clickline.publish.publisher import Settings, publish
from clickline.versions import donefile
from clickline.versions.chain import opened
from clickline.versions.maintenance import keep, list_versions, rollback, verify
from clickline.versions.store import Store
from support.versions.trained_run import Training

FILES = ["manifest.json", "network.onnx", "embedding.dict", "linear.dict", "sample.safetensors"]


def folder(store: Store, version: int) -> Path:
    assert store.directory is not None
    return store.directory / f"v{version:010d}"


def flip(path: Path, place: float) -> None:
    content = bytearray(path.read_bytes())
    content[int((len(content) - 1) * place)] ^= 1
    path.write_bytes(content)


def test_whole_versions_are_found_whole(filled: Store) -> None:
    assert [verify(filled, version) for version in (1, 2, 3)] == [5, 10, 15]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("place", [0.0, 0.3, 0.99])
@pytest.mark.parametrize("version", [1, 3])
def test_a_flipped_bit_is_found_in_the_file_where_it_is(filled: Store, name: str, place: float, version: int) -> None:
    flip(folder(filled, version) / name, place)
    with pytest.raises(VersionError, match=f"v{version:010d}/{name}: "):
        verify(filled, 3)
    assert donefile.read(filled).serving == 3


DAMAGES: dict[str, Callable[[Path], object]] = {
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "empty": lambda path: path.write_bytes(b""),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"\0"),
    "missing": lambda path: path.unlink(),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_file_of_another_length_is_found(filled: Store, name: str, damage: str) -> None:
    DAMAGES[damage](folder(filled, 2) / name)
    with pytest.raises(VersionError, match=f"v0000000002/{name}: "):
        verify(filled, 3)


@pytest.mark.parametrize("damage", DAMAGES)
def test_opening_refuses_row_files_of_another_length(filled: Store, damage: str) -> None:
    DAMAGES[damage](folder(filled, 2) / "linear.dict")
    with pytest.raises(VersionError, match=r"v0000000002/linear\.dict: "), opened(filled, 3):
        pass


def test_a_file_too_many_is_found(filled: Store) -> None:
    (folder(filled, 2) / "extra.bin").write_bytes(b"x")
    with pytest.raises(VersionError, match=r"v0000000002/extra\.bin: not in v0000000002/manifest\.json"):
        verify(filled, 2)


def test_a_row_file_of_another_table_is_found(filled: Store) -> None:
    place = folder(filled, 1)
    manifest = json.loads((place / "manifest.json").read_text())
    manifest["tables"]["linear"]["files"] = ["embedding.dict"]
    rewrite(filled, 1, manifest)
    with pytest.raises(VersionError, match=r"embedding\.dict: rows of dim 4 and type 1; the manifest says 1"):
        verify(filled, 1)


def rewrite(store: Store, version: int, manifest: dict[str, object]) -> None:
    """Another manifest, with the donefile made to agree."""
    assert store.directory is not None
    content = json.dumps(manifest).encode()
    (folder(store, version) / "manifest.json").write_bytes(content)
    lines = [json.loads(line) for line in (store.directory / "versions.jsonl").read_text().splitlines()]
    lines[version - 1]["sha256"] = hashlib.sha256(content).hexdigest()
    lines[version - 1].pop("check")
    (store.directory / "versions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.mark.parametrize("count", ["rows", "deleted"])
@pytest.mark.parametrize("more", [1, -1])
def test_a_count_that_differs_from_the_rows_of_the_file_is_found(filled: Store, count: str, more: int) -> None:
    manifest = json.loads((folder(filled, 2) / "manifest.json").read_text())
    facts = manifest["tables"]["embedding"]
    assert facts[count] > 0
    there = f"{facts['rows']} rows and {facts['deleted']} deleted"
    facts[count] += more
    rewrite(filled, 2, manifest)
    expected = rf"embedding\.dict: {there}; the manifest says {facts['rows']} and {facts['deleted']}"
    with pytest.raises(VersionError, match=expected), opened(filled, 3):
        pass
    with pytest.raises(VersionError, match=expected):
        verify(filled, 3)


def test_a_delta_on_tables_of_another_type_is_refused(filled: Store) -> None:
    manifest = json.loads((folder(filled, 2) / "manifest.json").read_text())
    manifest["tables"]["linear"]["dtype"] = "fp16"
    rewrite(filled, 2, manifest)
    with pytest.raises(VersionError, match="table linear has fp16 rows of dim 1, version 1 has fp32 of 1"):
        verify(filled, 2)


def test_a_missing_parent_is_a_gap_that_is_named(filled: Store) -> None:
    shutil.rmtree(folder(filled, 2))
    with pytest.raises(VersionError, match=r"v0000000002/manifest\.json: not there"):
        verify(filled, 3)
    with pytest.raises(VersionError, match=r"v0000000002/manifest\.json: not there"):
        rollback(filled, 2)


@pytest.mark.heavy
def test_a_delta_on_a_damaged_parent_is_refused_and_a_base_is_not(filled: Store, training: Training) -> None:
    (folder(filled, 2) / "linear.dict").write_bytes(b"")
    before = (filled.directory / "versions.jsonl").read_bytes() if filled.directory else b""
    with pytest.raises(VersionError, match=r"v0000000002/linear\.dict: .*; publish a base"):
        publish(training.run, filled, Settings(kind="delta"))
    assert filled.directory is not None
    assert (filled.directory / "versions.jsonl").read_bytes() == before
    assert publish(training.run, filled, Settings(kind="auto", sample_rows=16)).kind == "base"


def test_kept_versions_keep_what_they_stand_on(filled: Store) -> None:
    assert keep(filled, 1) == []  # 3 stands on 2, and 2 on 1
    assert [one["version"] for one in list_versions(filled)] == [1, 2, 3]


@pytest.mark.heavy
def test_the_rest_is_removed_but_never_what_is_served(filled: Store, training: Training) -> None:
    for kind in ("base", "delta", "base"):
        publish(training.run, filled, Settings(kind=kind, sample_rows=16))
    rollback(filled, 2)
    assert keep(filled, 1) == [3, 4, 5]
    assert [one["version"] for one in list_versions(filled)] == [1, 2, 6]
    assert donefile.read(filled).serving == 2
    assert filled.names() == [
        ".donefile.lock", ".publishing.lock", "v0000000001", "v0000000002", "v0000000006", "versions.jsonl"
    ]  # fmt: skip
    verify(filled, 2)
    rollback(filled, 6)
    assert keep(filled, 1) == [1, 2]
    assert publish(training.run, filled, Settings(kind="delta", sample_rows=16)).version == 7


def test_rolling_back_goes_to_the_version_before(filled: Store) -> None:
    assert rollback(filled) == (2, 3)
    assert rollback(filled) == (1, 2)
    with pytest.raises(VersionError, match="no version before 1"):
        rollback(filled)
    with pytest.raises(VersionError, match="version 1 is the one that is served already"):
        rollback(filled, 1)
    with pytest.raises(VersionError, match="no version 9; there are: 1, 2, 3"):
        rollback(filled, 9)
    assert rollback(filled, 3) == (3, 1)


def test_a_lost_donefile_does_not_cost_the_versions(filled: Store) -> None:
    assert filled.directory is not None
    (filled.directory / "versions.jsonl").unlink()
    with pytest.raises(VersionError, match=r"v0000000002: there, but versions\.jsonl ends at version 0"):
        keep(filled, 1)
    assert all(folder(filled, version).is_dir() for version in (1, 2, 3))
