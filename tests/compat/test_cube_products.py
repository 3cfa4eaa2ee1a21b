"""Cube's products, base.txt and SequenceFiles, are built and delivered like any version."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from clickline.compat.cube import cube_donefiles
from clickline.compat.cube.http.meta_info import MetaInfoFiles
from clickline.compat.cube.product_source import DonefileSource
from clickline.compat.cube.sequence_files import writing
from clickline.cube.builder.builder import build
from clickline.cube.shard_files import read_shard
from clickline.errors import VersionError


def product(directory: Path, name: str, rows: dict[int, bytes]) -> str:
    folder = directory / name
    folder.mkdir(parents=True)
    with writing(folder / "part-0") as file:
        keys = np.array(list(rows), np.uint64)
        offsets = np.cumsum([0, *(len(value) for value in rows.values())]).astype(np.uint64)
        file.append(keys, np.frombuffer(b"".join(rows.values()), np.uint8), offsets)
    return str(folder)


def values(tar: Path, keys: list[int]) -> list[bytes | None]:
    (place,) = read_shard(tar).tables.values()
    status, offsets, content = place.open().lookup_values(np.array(keys, np.uint64))
    whole = content.tobytes()
    return [whole[int(a) : int(b)] if s == 0 else None for s, a, b in zip(status, offsets, offsets[1:], strict=False)]


def test_base_and_patch(tmp_path: Path) -> None:
    donefile = str(tmp_path / "donefile")
    same = {key: bytes([key]) * 8 for key in range(1, 50)}
    cube_donefiles.append(donefile, "base", id=100, input=product(tmp_path, "b", same))
    other = {3: b"x" * 8, 60: b"y" * 8}
    cube_donefiles.append(donefile, "patch", id=101, key=100, input=product(tmp_path, "p", other))
    source = DonefileSource(donefile, table="d")
    chain = source.chain()
    builds = [
        build(source.rows(one, scratch=tmp_path), out=tmp_path / "out", name="d", shards=1, listener=MetaInfoFiles())
        for one in chain
    ]
    assert [one.path.name for one in builds] == ["100_100", "100_101"]
    assert values(builds[0].path / "d_part0.tar", [1, 3, 60]) == [b"\1" * 8, b"\3" * 8, None]
    assert values(builds[1].path / "d_part0.tar", [1, 3, 60]) == [None, b"x" * 8, b"y" * 8]
    meta = json.loads((tmp_path / "out" / "meta_info" / "100_100_0_0.json").read_text())
    assert meta == {"index_total_count": "49", "data_len_list": [str(12 * 49)], "index_len_list": [str(16 * 49)]}


def test_values_of_any_size_and_keys_that_come_again(tmp_path: Path) -> None:
    folder = tmp_path / "b"
    folder.mkdir()
    with writing(folder / "part-0") as file:
        for key, value in ((7, b"first"), (8, b"e" * 5000), (7, b"the last one")):
            file.append(np.array([key], np.uint64), np.frombuffer(value, np.uint8)[None, :])
    cube_donefiles.append(str(tmp_path), "base", id=5, input=str(folder))
    source = DonefileSource(str(tmp_path), table="d")
    made = build(source.rows(source.chain()[0], scratch=tmp_path / "s"), out=tmp_path / "out", name="d", shards=1)
    assert values(made.path / "d_part0.tar", [7, 8]) == [b"the last one", b"e" * 5000]


@pytest.mark.parametrize("content", [b"", b"SEQ", b"rubbish" * 100])
def test_a_bad_file_fails_loudly(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "part-0").write_bytes(content)
    cube_donefiles.append(str(tmp_path), "base", id=5, input=str(tmp_path / "b"))
    source = DonefileSource(str(tmp_path), table="d")
    with pytest.raises(VersionError):
        source.rows(source.chain()[0], scratch=tmp_path / "s")


def test_nothing_yet(tmp_path: Path) -> None:
    source = DonefileSource(str(tmp_path / "none"), table="d")
    before = source.stamp()
    assert source.chain() == []
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "base.txt").write_text('{"id": "1", ')
    assert source.stamp() != before
    assert source.chain() == []
