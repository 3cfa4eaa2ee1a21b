"""Versions in a store that is no directory: their row files come here first, each once, whole or again."""

from __future__ import annotations

from pathlib import Path

import fsspec
import pytest

from clickline.compat.cube.product_source import DonefileSource
from clickline.cube.builder.builder import build
from clickline.errors import VersionError
from support.versions.version_stores import VersionStore, keys_from


def test_a_version_elsewhere(store: VersionStore, tmp_path: Path) -> None:
    store.base(keys_from(1, 100))
    version = store.delta(keys_from(5, 10), keys_from(20, 30))
    remote = f"memory://delivering-{tmp_path.name}"
    system, root = fsspec.core.url_to_fs(remote)
    system.put(str(store.path), root, recursive=True)
    here = DonefileSource(str(store.path), table="d")
    there = DonefileSource(remote, table="d")
    assert there.stamp() is None
    assert [one.version for one in there.chain()] == [1, version]
    for step in there.chain():
        rows = there.rows(step, scratch=tmp_path / "scratch")
        made = build(rows, out=tmp_path / "there", name="d", shards=2)
        local = here.rows(step, scratch=tmp_path / "none")
        assert made.record.files == build(local, out=tmp_path / "here", name="d", shards=2).record.files
    assert not (tmp_path / "none").exists()
    (file,) = rows.tables["embedding"]
    file.path.write_bytes(file.path.read_bytes()[:100])  # as of a transfer that was killed
    again = there.rows(step, scratch=tmp_path / "scratch")
    build(again, out=tmp_path / "again", name="d", shards=1)
    system.pipe_file(f"{root}/v{version:010d}/embedding.dict", b"rubbish")
    with pytest.raises(VersionError, match=r"embedding\.dict"):
        build(there.rows(step, scratch=tmp_path / "other"), out=tmp_path / "bad", name="d", shards=1)
