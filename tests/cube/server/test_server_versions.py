"""A cube server's versions: what a restart serves, what is kept, what is refused, what compaction leaves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clickline.cube.server.compaction import compact, is_due
from clickline.cube.shard_files import read_shard
from clickline.errors import VersionError
from support.cubes.local_shard import OneShard, read
from support.eventually import eventually
from support.versions.version_stores import VersionStore, keys_from


def test_a_restart_serves_what_was_switched_to_not_what_was_downloaded(shard: OneShard) -> None:
    one = shard.store.base(keys_from(1, 100))
    shard.deliver(one)
    other = shard.store.base(keys_from(1, 50))
    assert shard.command("download", other)["success"] == "0"
    assert shard.command("reload", other)["success"] == "0"
    shard.restart_cube()
    assert shard.cube.native.current() == (one, 1)
    read(shard, one)


def test_the_last_versions_are_kept_and_others_go(shard: OneShard) -> None:
    versions = [shard.store.base(keys_from(1, 10 * n)) for n in range(2, 7)]
    for version in versions:
        shard.deliver(version)
    eventually(lambda: shard.cube.versions.loaded == versions[-3:])
    eventually(lambda: sorted(int(p.name) for p in (shard.deploy / "data").iterdir()) == versions[-3:])
    shard.restart_cube()
    assert shard.cube.versions.loaded == versions[-3:]
    for version in versions[-3:]:
        read(shard, version)


def test_what_a_kept_delta_stands_on_stays(shard: OneShard) -> None:
    base = shard.store.base(keys_from(1, 300))
    shard.deliver(base)
    for n in range(5):
        shard.deliver(shard.store.delta(keys_from(1, 3), keys_from(10 * n + 50, 10 * n + 55)))
    last = shard.store.last
    eventually(lambda: shard.cube.versions.loaded == [last - 2, last - 1, last])
    read(shard, last)
    shard.restart_cube()
    for version in (last - 2, last - 1, last):
        read(shard, version)


def test_switch_numbers_grow(shard: OneShard) -> None:
    one, other = shard.store.base(keys_from(1, 10)), shard.store.base(keys_from(1, 20))
    for version in (one, other):
        shard.command("download", version)
        shard.command("reload", version)
    shard.cube.switch(one, 7)
    shard.cube.switch(one, 7)
    with pytest.raises(VersionError, match="switch 6 to version 2 is refused: switch 7 to version 1 came before"):
        shard.cube.switch(other, 6)
    with pytest.raises(VersionError, match="is refused"):
        shard.cube.switch(other, 7)
    with pytest.raises(VersionError, match="version 9 is not loaded here; loaded: 1, 2"):
        shard.cube.switch(9, 8)
    shard.cube.switch(other, 8)
    assert shard.cube.rollback() == one
    assert shard.cube.native.current() == (one, 9)


class NotesAtSwitches:
    """Stands before the server's versions and reads, at each switch, what a restart would find noted."""

    def __init__(self, shard: OneShard) -> None:
        self._native, self._file = shard.cube.versions._native, shard.deploy / "state.json"
        self.noted: list[tuple[int, int]] = []
        shard.cube.versions._native = self

    def switch(self, version: int, number: int) -> None:
        facts = json.loads(self._file.read_bytes())
        self.noted.append((facts["current"], facts["number"]))
        self._native.switch(version, number)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._native, name)


def test_a_switch_is_noted_before_anybody_can_read_of_it(shard: OneShard) -> None:
    """Else a server that dies in between would come back with the version before, which readers have left."""
    one, other = shard.store.base(keys_from(1, 10)), shard.store.base(keys_from(1, 20))
    for version in (one, other):
        shard.command("download", version)
        shard.command("reload", version)
    at_switches = NotesAtSwitches(shard)
    shard.cube.switch(one, 3)
    shard.cube.switch(other, 4)
    shard.cube.rollback()
    assert at_switches.noted == [(one, 3), (other, 4), (one, 5)]
    assert shard.cube.native.current() == (one, 5)


def test_a_gap_in_a_chain_is_named(shard: OneShard) -> None:
    shard.store.base(keys_from(1, 10))
    shard.store.delta(keys_from(1, 5))
    last = shard.store.delta(keys_from(1, 5))
    shard.command("download", 1)
    shard.command("download", last)
    answer = shard.command("reload", last)
    assert answer["success"] == "255"
    assert "version 2 is not there, which version 3 is a delta on" in answer["message"]
    assert shard.cube.versions.loaded == []


def test_a_damaged_file_is_not_loaded_and_the_old_version_stays(shard: OneShard) -> None:
    one = shard.store.base(keys_from(1, 100))
    shard.deliver(one)
    other = shard.store.base(keys_from(1, 50))
    shard.command("download", other)
    file = shard.deploy / "data" / str(other) / "test_dict_part0.tar"
    content = bytearray(file.read_bytes())
    place = read_shard(file).tables["embedding"]
    content[place.offset + place.length // 2] ^= 1
    file.write_bytes(content)
    assert shard.command("reload", other)["success"] == "255"
    assert shard.command("check", other)["success"] == "255"
    read(shard, one)
    assert shard.command("download", other)["success"] == "0"  # again, since it is not what it should be
    assert shard.command("reload", other)["success"] == "0"


def test_compaction_changes_no_row(shard: OneShard) -> None:
    shard.deliver(shard.store.base(keys_from(1, 300)))
    for n in range(4):
        shard.deliver(shard.store.delta(keys_from(10 * n, 10 * n + 5) + np.uint64(1), keys_from(200 + n, 203 + n)))
    last = shard.store.last
    layers = shard.cube.versions.layers(last)["embedding"]
    assert (len(layers), is_due(layers)) == (5, False)
    assert compact(shard.cube.versions, last)
    assert not compact(shard.cube.versions, last)
    assert len(shard.cube.versions.layers(last)["embedding"]) == 1
    read(shard, last)
    shard.deliver(shard.store.delta(keys_from(77, 79)))
    assert len(shard.cube.versions.layers(last + 1)["embedding"]) == 2
    read(shard, last + 1)
    shard.restart_cube()
    read(shard, last + 1)
    read(shard, last)


def test_long_chains_are_merged_in_the_background(shard: OneShard) -> None:
    shard.deliver(shard.store.base(keys_from(1, 300)))
    for _ in range(12):
        shard.deliver(shard.store.delta(keys_from(1, 3)))
        read(shard, shard.store.last)
    eventually(lambda: any(path.name.startswith("compact_") for path in (shard.deploy / "data").iterdir()))
    eventually(lambda: len(shard.cube.versions.layers(shard.store.last)["embedding"]) <= 9)
    # The base is not needed by any of the last three versions.
    shard.deliver(shard.store.delta(keys_from(1, 3)))
    read(shard, shard.store.last)


def test_memory_mode_reads_the_same(tmp_path: Path, store: VersionStore) -> None:
    shard = OneShard(tmp_path, store, memory=True)
    try:
        shard.deliver(store.base(keys_from(1, 100)))
        shard.deliver(store.delta(keys_from(5, 10), keys_from(20, 30)))
        read(shard, 2)
        read(shard, 1)
    finally:
        shard.close()
