"""Manifests come from files: whatever does not fit is refused, by name, before it is used."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from clickline.errors import VersionError
from clickline.versions.donefile import DonefileEntry
from clickline.versions.manifest import LIMIT, MANIFEST, Manifest, parse, read_manifest
from clickline.versions.store import open_store
from support.versions.plain_manifests import FILE, plain


def text(**changes: Any) -> bytes:
    return json.dumps(plain(**changes)).encode()


def test_what_is_written_is_read_again() -> None:
    manifest = parse(text(), where="here")
    assert parse(manifest.encoded(), where="here") == manifest


def test_keys_of_a_later_time_are_left_alone() -> None:
    assert parse(text(colour="red"), where="here").version == 1


def with_table(**changes: Any) -> dict[str, Any]:
    return {"tables": {"embedding": plain()["tables"]["embedding"] | changes}}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"format": 2}, "not a manifest of format 1"),
        ({"version": "1"}, "version: "),
        ({"version": 0}, "version: "),
        ({"kind": "delta"}, "a base has no parent"),
        ({"kind": "delta", "version": 5, "parent": 3, "base": 1}, "a delta on 3; 4 was expected"),
        ({"network": "../network.onnx"}, "network: "),
        ({"network": "/etc/passwd"}, "network: "),
        ({"network": ".hidden"}, "network: "),
        ({"network": "other.onnx"}, "not listed in `files`: other.onnx"),
        ({"files": {"../../x": FILE}}, "files"),
        ({"files": {**plain()["files"], MANIFEST: FILE}}, "lists itself"),
        ({"files": {**plain()["files"], "x": {"bytes": -1, "sha256": "a" * 64}}}, "files.x.bytes"),
        ({"files": {**plain()["files"], "x": {"bytes": 1, "sha256": "A" * 64}}}, "files.x.sha256"),
        ({"tables": {"a/b": plain()["tables"]["embedding"]}}, "tables"),
        (with_table(dtype="fp8"), "tables.embedding.dtype"),
        (with_table(dim=0), "tables.embedding.dim"),
        (with_table(files=[]), "tables.embedding.files"),
        (with_table(files=["../up.dict"]), "tables.embedding.files.0"),
        (with_table(rows=2**70), "tables.embedding.rows"),
        ({"watermark": "today"}, "watermark: "),
        ({"job": []}, "job: "),
    ],
)
def test_what_does_not_fit_is_named(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(VersionError, match=f"here: .*{said}|here: {said}"):
        parse(text(**changes), where="here")


@pytest.mark.parametrize("content", [b"", b"null", b"[]", b"{", b"\xff", b"[" * 100_000, b'{"format": 1}'])
def test_what_is_no_manifest_is_refused(content: bytes) -> None:
    with pytest.raises(VersionError, match="here: "):
        parse(content, where="here")


def test_a_huge_one_is_not_parsed() -> None:
    with pytest.raises(VersionError, match="larger than"):
        parse(b" " * (LIMIT + 1), where="here")


def entry_of(manifest: Manifest, content: bytes) -> DonefileEntry:
    digest = hashlib.sha256(content).hexdigest()
    return DonefileEntry(manifest.version, manifest.kind, manifest.parent, "v0000000001/manifest.json", digest, 0.0)


def test_only_the_manifest_that_the_donefile_means_is_read() -> None:
    store = open_store("memory://manifests")
    content = text()
    entry = entry_of(parse(content, where="here"), content)
    store.write("v0000000001/manifest.json", content)
    assert read_manifest(store, entry).version == 1
    store.write("v0000000001/manifest.json", content + b" ")
    with pytest.raises(VersionError, match=r"v0000000001/manifest.json: damaged: its SHA-256 is .*, the donefile says"):
        read_manifest(store, entry)


def test_a_manifest_of_another_version_is_refused() -> None:
    store = open_store("memory://manifests")
    content = text(version=2, base=2)
    store.write("v0000000001/manifest.json", content)
    entry = entry_of(parse(text(), where="here"), content)
    with pytest.raises(VersionError, match="version 2, the donefile says 1"):
        read_manifest(store, entry)
