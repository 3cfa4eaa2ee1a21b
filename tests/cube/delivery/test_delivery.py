"""Delivery by real processes: versions arrive, the dead are left behind and catch up, nothing bad gets through."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest

from support.cubes.cube_processes import CubeProcesses, Reader, two_by_two
from support.eventually import eventually
from support.versions.version_stores import keys_from, rows_of

pytestmark = pytest.mark.heavy
Note = Callable[[str, object], None]


@pytest.fixture(scope="module")
def cube(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CubeProcesses]:
    """Two shards of two servers each; tests leave it whole, with its newest version on all servers."""
    with two_by_two(tmp_path_factory.mktemp("cube")) as found:
        yield found


def test_rows_come_back_as_they_were_published(cube: CubeProcesses) -> None:
    version = cube.store.base(keys_from(1, 400), tables=("embedding", "wide"))
    cube.await_all(version)
    keys = keys_from(1, 450)
    with cube.connect() as client:
        for table, dim in (("embedding", 4), ("wide", 8)):
            found = client.get(table, keys, version=version)
            assert (found.version, found.code, found.dim) == (version, 0, dim)
            assert np.array_equal(found.status == 0, keys < 400)
            assert np.array_equal(found.decoded()[:399], rows_of(keys[:399], version, dim=dim))


def test_deltas_in_order(cube: CubeProcesses, record_property: Note) -> None:
    cube.store.base(keys_from(1, 300))
    reader = Reader(cube.connect(), cube.store)
    reader.start()
    for n in range(4):
        version = cube.store.delta(keys_from(10 * n + 1, 10 * n + 20), keys_from(200 + n, 204 + n))
        began = time.monotonic()
        cube.await_version(version)
        record_property("counts", f"delta {version}: {time.monotonic() - began:.3f} s from donefile to all serving")
    record_property("counts", reader.stop())
    assert cube.get("/dict/info")["current_version_info"][0]["mode"] == "delta"


def test_several_versions_at_once_end_with_the_last(cube: CubeProcesses) -> None:
    for _ in range(3):
        version = cube.store.delta(keys_from(1, 9))
    cube.await_all(version)


def test_rollback_needs_no_download(cube: CubeProcesses, record_property: Note) -> None:
    before = cube.store.base(keys_from(1, 300))
    cube.await_all(before)
    version = cube.store.base(keys_from(1, 200))
    cube.await_all(version)
    reader = Reader(cube.connect(), cube.store)
    reader.start()
    began = time.monotonic()
    answer = cube.post("/rollback", {})
    seconds = time.monotonic() - began
    assert (answer["success"], answer["data"]["version"], answer["data"]["behind"]) == ("0", before, [])
    record_property("counts", f"rollback: {seconds:.3f} s; {reader.stop()}")
    with cube.connect() as client:
        assert client.get("embedding", keys_from(1, 5)).version == before
    cube.post("/notify", {})
    assert cube.serving() == before  # not rolled out again by itself
    after = cube.store.base(keys_from(1, 100))
    cube.await_all(after)


def test_a_rollback_in_the_donefile_is_followed(cube: CubeProcesses, record_property: Note) -> None:
    from clickline.versions.maintenance import rollback
    from clickline.versions.store import open_store

    before = cube.store.last
    version = cube.store.base(keys_from(1, 200))
    cube.await_all(version)
    began = time.monotonic()
    rollback(open_store(cube.store.path), before)
    cube.await_version(before)
    record_property("counts", f"rollback by the donefile: {time.monotonic() - began:.3f} s")
    cube.await_all(before)
    cube.await_all(cube.store.base(keys_from(1, 300)))


def test_a_dead_server_is_reported_left_behind_and_catches_up_before_it_serves(
    cube: CubeProcesses, record_property: Note
) -> None:
    cube.kill("cube.0_1")
    reader = Reader(cube.connect(), cube.store)
    reader.start()
    first = cube.store.base(keys_from(1, 280))
    began = time.monotonic()
    cube.await_version(first)
    record_property("counts", f"with a dead server: {time.monotonic() - began:.3f} s, it is waited for {cube.wait} s")
    version = cube.store.delta(keys_from(1, 40), keys_from(100, 110))
    cube.await_version(version)
    told = {f"{one['shard']}_{n % 2}": one for n, one in enumerate(cube.get("/instance/status"))}
    assert (told["0_1"]["status_id"], told["0_1"]["status"]) == (250, "Dead")
    assert cube.get("/dict/info")["current_version_info"][0]["behind"] == ["0_1"]
    cube.start("cube.0_1")
    seek = f"{cube.told('cube.0_1')['http']}/DictService/seek"
    found = httpx.post(seek, json={"keys": [1], "version_required": True}, trust_env=False).json()
    assert found["version"] in ("", str(version))  # nothing, or what the others serve; never what it had
    cube.await_all(version)
    assert httpx.post(seek, json={"keys": [1]}, trust_env=False).json()["version"] == str(version)
    record_property("counts", reader.stop())


def test_a_server_that_lost_its_disk_catches_up(cube: CubeProcesses) -> None:
    import shutil

    version = cube.store.delta(keys_from(1, 4))
    cube.await_all(version)
    cube.kill("cube.1_0")
    shutil.rmtree(cube.directory / "deploy.1_0")
    cube.start("cube.1_0")
    cube.await_all(version)
    again = cube.store.delta(keys_from(1, 4))
    cube.await_all(again)


@pytest.mark.parametrize("damage", ["flipped", "cut"])
def test_a_damaged_version_is_named_and_the_old_one_stays(
    cube: CubeProcesses, damage: str, record_property: Note
) -> None:
    before = cube.store.base(keys_from(1, 300))
    cube.await_all(before)
    reader = Reader(cube.connect(), cube.store)
    reader.start()
    version = cube.store.base(keys_from(1, 200), announce=False)
    file = cube.store.path / f"v{version:010d}" / "embedding.dict"
    content = file.read_bytes()
    if damage == "flipped":
        file.write_bytes(content[:500] + bytes([content[500] ^ 1]) + content[501:])
    else:
        file.write_bytes(content[:-64])
    cube.store.announce(version)
    eventually(lambda: "embedding.dict" in cube.get("/dict/info")["problem"], what="the problem named")
    assert cube.serving() == before
    file.write_bytes(content)
    cube.post("/notify", {})
    cube.await_all(version)
    assert cube.get("/dict/info")["problem"] == ""
    record_property("counts", reader.stop())


def test_half_a_line_waits_and_a_garbled_one_is_named(cube: CubeProcesses) -> None:
    before = cube.store.base(keys_from(1, 300))
    cube.await_all(before)
    donefile = cube.store.path / "versions.jsonl"
    content = donefile.read_bytes()
    donefile.write_bytes(content + b'{"version": ')
    cube.post("/notify", {})
    assert (cube.serving(), cube.get("/dict/info")["problem"]) == (before, "")
    donefile.write_bytes(content + b'{"version": \n')
    cube.post("/notify", {})
    eventually(lambda: "garbled" in cube.get("/dict/info")["problem"], what="the garbled line named")
    assert cube.serving() == before
    donefile.write_bytes(content)
    cube.post("/notify", {})
    eventually(lambda: cube.get("/dict/info")["problem"] == "", what="no problem any more")


def test_transfer_that_lost_its_memory_goes_on(cube: CubeProcesses) -> None:
    version = cube.store.base(keys_from(1, 300))
    cube.await_all(version)
    number = cube.get("/dict/info")["current_version_info"][0]["switch"]
    cube.kill("transfer")
    (cube.directory / "state" / "transfer.json").unlink()
    cube.start("transfer")
    cube.await_all(version)
    assert cube.get("/dict/info")["current_version_info"][0]["switch"] > number


def test_the_status_api(cube: CubeProcesses) -> None:
    version = cube.store.delta(keys_from(1, 7))
    cube.await_all(version)
    info = cube.get("/dict/info")
    wanted = """dict_name dict_mode shard_num copy_num inst_num deploy_path donefile_addr output_addr tmp_addr
        download_mode wget_port download_inst reload_insts enable_insts instances wait_version_info
        current_version_info"""
    assert set(wanted.split()) <= info.keys()
    assert (info["dict_name"], info["shard_num"], info["copy_num"], info["inst_num"]) == ("test_dict", 2, 2, 4)
    wanted = """dict_name version depend id key mode input output status status_str finish_time create_time
        meta_infos"""
    current = info["current_version_info"][0]
    assert set(wanted.split()) <= current.keys()
    assert (current["version"], current["status"], current["status_str"]) == (str(version), 90, "Finished")
    wanted = """dict_name mode version depend id key shard source deploy_path ip port agent_ip agent_port status_id
        status builded_time download_start_time downloaded_time reload_start_time reloaded_time enable_start_time
        enabled_time create_time"""
    for instance in info["instances"]:
        assert set(wanted.split()) <= instance.keys()
        times = [instance[f"{name}_time"] for name in ("builded", "downloaded", "reloaded", "enabled")]
        assert times == sorted(times)
        assert times[0] > 0
    assert cube.get("/instance/status") == info["instances"]
    history = cube.get("/dict/deploy/history")
    assert history[0]["version"] == str(version)
    scaler = cube.get("/dict/scaler?shard=1")
    assert [one["version"] for one in scaler][-1] == str(version)
    for one in scaler:
        assert {"name", "version", "depend", "id", "key", "shard", "mode", "data_source"} <= one.keys()
        assert httpx.head(one["data_source"], trust_env=False).status_code == 200
    query = f"name=test_dict&version={version}&depend={current['depend']}&shard=0"
    meta = cube.get(f"/dict/meta_info?{query}")
    assert set(meta) == {"index_total_count", "data_len_list", "index_len_list"}
    register = {"name": "x", "version": "1", "depend": "1", "shard": "0", "split": "2", "meta": '{"a": 1}'}
    assert cube.post("/dict/meta_info/register", register)["success"] == "0"
    assert cube.get("/dict/meta_info?name=x&version=1&depend=1&shard=0&split=2") == {"a": 1}
    for path, code in (("/dict/scaler?shard=7", "10"), ("/dict/meta_info?name=x", "10"), ("/none", "2")):
        assert httpx.get(f"{cube.url}{path}", trust_env=False).json()["success"] == code
    wrong = httpx.get(f"{cube.url}/none", trust_env=False).json()
    assert "/dict/info" in wrong["api_list"]
    assert httpx.post(f"{cube.url}/rollback", json={}, trust_env=False).status_code == 401


def test_only_some_builds_are_kept(cube: CubeProcesses) -> None:
    for _ in range(4):
        version = cube.store.base(keys_from(1, 300))
        cube.await_all(version)
    kept = {f"{number}_{number}" for number in range(version - 2, version + 1)}

    def builds() -> set[str]:
        return {path.name for path in Path(cube.directory / "builds").iterdir() if path.name[0].isdigit()}

    eventually(lambda: builds() == kept, what=f"only {kept} left")  # they go after the version is in service
