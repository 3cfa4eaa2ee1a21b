"""What a process leaves that dies half-way: removed by whoever finds it, unless somebody is at it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from clickline.cube.agent.agent import Agent, AgentOptions
from clickline.cube.builder.builder import clean
from clickline.cube.server.compaction import compact
from clickline.files.leftovers import abandoned, being_written
from support.cubes.local_shard import TOKEN, OneShard, read
from support.eventually import eventually
from support.versions.version_stores import keys_from


def left(folder: Path, name: str) -> Path:
    """It appears at once: a process that cleans up at this moment finds all of it or nothing."""
    folder.mkdir(parents=True, exist_ok=True)
    made = folder.with_name(f"{folder.name}{name}.made")
    made.mkdir()
    (made / "half.part").write_bytes(b"half of")
    return made.rename(folder / name)


def chain_of(shard: OneShard, deltas: int) -> int:
    shard.deliver(shard.store.base(keys_from(1, 300)))
    for n in range(deltas):
        shard.deliver(shard.store.delta(keys_from(10 * n, 10 * n + 5) + np.uint64(1), keys_from(200 + n, 203 + n)))
    return shard.store.last


def test_a_newer_version_takes_the_place_of_a_download_that_broke_off(shard: OneShard) -> None:
    old = [left(shard.deploy / "data", name) for name in (".downloading-1", ".downloading-1_2")]
    newer = left(shard.deploy / "data", ".downloading-9")
    for _ in range(3):
        version = shard.store.base(keys_from(1, 50))
    assert shard.command("download", version)["success"] == "0"
    assert [path.exists() for path in (*old, newer)] == [False, False, True]


def test_an_agent_that_starts_keeps_only_the_newest_download(tmp_path: Path) -> None:
    old, new = (left(tmp_path / "data", name) for name in (".downloading-1_3", ".downloading-1_4"))
    elsewhere = [left(tmp_path / "ctr" / "data", name) for name in (".downloading-5", ".downloading-6")]
    Agent(AgentOptions(deploy=tmp_path, token=TOKEN)).close()
    assert [path.exists() for path in (old, new, *elsewhere)] == [False, True, False, True]


def test_a_download_under_way_is_left_alone(tmp_path: Path) -> None:
    path = left(tmp_path / "data", ".downloading-1_3")
    left(tmp_path / "data", ".downloading-1_4")
    ready, end = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        with being_written(path):
            os.write(ready[1], b"x")
            os.read(end[0], 1)
        os._exit(0)
    os.read(ready[0], 1)
    Agent(AgentOptions(deploy=tmp_path, token=TOKEN)).close()
    assert path.exists()
    os.kill(child, 9)
    os.waitpid(child, 0)
    Agent(AgentOptions(deploy=tmp_path, token=TOKEN)).close()
    assert not path.exists()
    for descriptor in (*ready, *end):
        os.close(descriptor)


def test_a_lock_is_not_held_on_a_directory_that_was_removed_meanwhile(tmp_path: Path) -> None:
    with being_written(tmp_path / ".downloading-1", anew=True) as path:
        (path / "x").write_text("x")
        assert list(abandoned([path])) == []
    assert not path.exists()
    with being_written(path):
        assert path.is_dir()
    assert list(abandoned([path])) == [path]


def test_a_server_removes_what_merging_and_downloads_of_old_versions_left(shard: OneShard) -> None:
    shard.deliver(shard.store.base(keys_from(1, 50)))
    old = [left(shard.deploy / "data", name) for name in (".compact_1", ".compact_7", ".downloading-1")]
    newer = left(shard.deploy / "data", ".downloading-2")
    shard.restart_cube()
    eventually(lambda: not any(path.exists() for path in old), seconds=60)
    assert newer.exists()
    old = [left(shard.deploy / "data", name) for name in (".compact_1", ".downloading-1_2")]
    shard.deliver(shard.store.base(keys_from(1, 60)))
    eventually(lambda: not any(path.exists() for path in old), seconds=60)


def test_builds_that_were_never_finished_go(tmp_path: Path) -> None:
    path = left(tmp_path, ".building-3_4")
    clean(tmp_path)
    assert not path.exists()
    clean(tmp_path / "not there")


def test_a_removal_that_broke_off_does_not_stand_in_the_way(shard: OneShard) -> None:
    version = shard.store.base(keys_from(1, 50))
    shard.command("download", version)
    (tar,) = (shard.deploy / "data" / str(version)).glob("*.tar")
    tar.unlink()
    shard.deliver(version)
    read(shard, version)


@pytest.mark.parametrize("damage", ["no facts", "half of the facts", "no rows", "half of the rows", "a flipped bit"])
def test_a_merged_chain_that_cannot_be_read_does_not_hide_the_chain(shard: OneShard, damage: str) -> None:
    last = chain_of(shard, 4)
    data = shard.deploy / "data"
    chain = {path.name: path for path in data.iterdir()}
    kept = {name: [(file.name, file.read_bytes()) for file in path.iterdir()] for name, path in chain.items()}
    assert compact(shard.cube.versions, last)
    merged = data / f"compact_{last}"
    for name, files in kept.items():  # as if power had failed before they were deleted
        (data / name).mkdir(exist_ok=True)
        for file, content in files:
            (data / name / file).write_bytes(content)
    file = merged / ("shard.json" if "facts" in damage else "embedding.dict")
    content = bytearray(file.read_bytes())
    if damage == "a flipped bit":
        content[-50] ^= 4
    else:
        content = content[: 0 if damage.startswith("no") else len(content) // 2]
    shard.cube.close()
    file.write_bytes(content)
    shard.cube = shard._cube()
    assert shard.cube.native.current()[0] == last
    read(shard, last)
    eventually(lambda: not merged.exists(), seconds=60)
    assert all((data / name).is_dir() for name in kept)
    assert compact(shard.cube.versions, last)
    read(shard, last)
    shard.restart_cube()
    read(shard, last)


def test_what_is_read_in_place_of_a_chain_is_on_the_disk_first(
    shard: OneShard, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = chain_of(shard, 2)
    happened: list[str] = []
    fsync, rename = os.fsync, Path.rename

    def noted_fsync(descriptor: int) -> None:
        happened.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        fsync(descriptor)

    def noted_rename(path: Path, target: Path) -> Path:
        happened.append(f"renamed to {Path(target).name}")
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(Path, "rename", noted_rename)
    assert compact(shard.cube.versions, last)
    aside, final = f".compact_{last}", f"compact_{last}"
    assert happened == ["shard.json", aside, f"renamed to {final}", "data"]
    json.loads((shard.deploy / "data" / final / "shard.json").read_bytes())
