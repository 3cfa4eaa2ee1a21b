"""No room for a build, a download, a merged chain: it is said, nothing half is used, and room is all that it takes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from clickline.cube.agent import download
from clickline.cube.builder.build_record import find_build
from clickline.cube.builder.builder import build
from clickline.cube.builder.version_source import PublishedSource
from clickline.cube.server import compaction
from clickline.errors import VersionError
from clickline.versions.store import open_store
from support.cubes.local_delivery import OneDelivery
from support.cubes.local_shard import OneShard, read
from support.eventually import eventually
from support.small_disks import SmallDisk, small_disk
from support.versions.version_stores import VersionStore, keys_from

SIZE = 24 << 20


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk", size=SIZE) as found:
        yield found


def test_the_builder(disk: SmallDisk, store: VersionStore, tmp_path: Path) -> None:
    version = store.base(keys_from(1, 20_000))
    source = PublishedSource(open_store(store.path))
    rows = source.rows(source.chain(version)[-1], scratch=tmp_path)
    build(rows, out=tmp_path / "measured", name="d", shards=2)
    needed = sum(path.stat().st_size for path in (tmp_path / "measured").rglob("*") if path.is_file())
    out = disk.path / "out"
    for leave in (8192, needed // 4, needed * 9 // 10):
        disk.fill(leave=leave)
        with pytest.raises(VersionError, match=f"{version}_{version}: cannot be built: .*No space left on device"):
            build(rows, out=out, name="d", shards=2)
        assert [path.name for path in out.iterdir()] == [".lock"]
    disk.make_room()
    build(rows, out=out, name="d", shards=2)
    assert find_build(out, version, version) is not None


def test_an_agent_whose_download_finds_no_room_on_the_way(
    disk: SmallDisk, tmp_path: Path, store: VersionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "_SPARE", -SIZE)  # somebody else takes the room after it was looked at
    shard = OneShard(tmp_path, store, deploy=disk.path / "deploy")
    try:
        version = store.base(keys_from(1, 20_000))
        disk.fill(leave=300_000)
        answer = shard.command("download", version)
        assert answer["success"] == "255" and "No space left on device" in answer["message"]
        assert shard.cube.versions.disk.complete() == []
        disk.make_room()
        shard.deliver(version)
        read(shard, version)
    finally:
        shard.close()


def test_a_delivery_goes_on_by_itself_when_there_is_room(disk: SmallDisk, tmp_path: Path) -> None:
    with OneDelivery(tmp_path, deploy=disk.path / "deploy") as delivery:
        delivery.start_agent()
        delivery.start_transfer()
        assert delivery.process is not None
        first = delivery.store.base(keys_from(1, 300))
        delivery.await_served(first)
        disk.fill(leave=64 << 10)
        version = delivery.store.base(keys_from(1, 350))
        (instance,) = delivery.process.transfer.instances
        eventually(lambda: "has room for 0" in instance.message, what="a message about room")
        delivery.check_rows(first)
        disk.make_room()
        delivery.await_served(version)


def test_merging_is_tried_again_until_there_is_room(
    disk: SmallDisk,
    tmp_path: Path,
    store: VersionStore,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(compaction, "_FIRST_PAUSE", 0.05)
    shard = OneShard(tmp_path, store, deploy=disk.path / "deploy")
    try:
        shard.deliver(store.base(keys_from(1, 30_000)))
        shard.deliver(store.delta(keys_from(1, 50)))
        last = store.delta(keys_from(1, 9_000))
        shard.command("download", last)
        shard.command("reload", last)
        disk.fill(leave=64 << 10)
        assert shard.command("enable", last)["success"] == "0"
        eventually(lambda: any("tidying up failed" in line for line in caplog.messages), what="a message")
        read(shard, last)
        assert not list((shard.deploy / "data").glob("compact_*"))
        disk.make_room()
        eventually((shard.deploy / "data" / f"compact_{last}").is_dir, what="a merged chain")
        read(shard, last)
        eventually(lambda: not list((shard.deploy / "data").glob(".compact_*")), what="nothing left")
    finally:
        shard.close()
