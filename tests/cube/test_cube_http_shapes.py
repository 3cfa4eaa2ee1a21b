"""Cube's HTTP shapes of agent and cube server, literally, and every command of theirs."""

from __future__ import annotations

import base64
import struct
import threading

import httpx
import numpy as np
import pytest

from clickline.compat.cube.http.agent_routes import run_cube_command
from clickline.cube.agent_messages import DownloadCommand
from support.cubes.local_shard import OneShard
from support.versions.version_stores import keys_from, rows_of

DONE = {"success": "0", "message": "query ok", "data": ""}


def test_agent_status(shard: OneShard) -> None:
    answer = httpx.get(f"{shard.agent.web.address}/agent/status", trust_env=False)
    assert answer.json() == {"status": "RUNNING", "version": "3.0.0.1"}


def test_agent_downloads_loads_and_enables(shard: OneShard) -> None:
    version = shard.store.base(keys_from(1, 100))
    assert shard.command("download", version) == DONE
    assert (shard.deploy / "data" / str(version) / "test_dict_part0.tar").exists()
    assert shard.cube.versions.loaded == []
    assert shard.command("reload", version) == DONE
    assert (shard.cube.versions.loaded, shard.cube.versions.view.version) == ([version], 0)
    assert shard.command("enable", version) == DONE
    assert shard.cube.versions.view.version == version
    patch = shard.store.delta(keys_from(5, 10))
    shard.deliver(patch)
    assert (shard.deploy / "data" / f"{version}_{patch}" / "test_dict_part0.tar").exists()


def test_agent_checks_clears_pops_and_rolls_back(shard: OneShard) -> None:
    one = shard.store.base(keys_from(1, 100))
    other = shard.store.base(keys_from(1, 50))
    for version in (one, other):
        shard.deliver(version)
    checked = shard.command("check", other)
    assert (checked["success"], checked["data"]["loaded"], checked["data"]["enabled"]) == ("0", True, True)
    assert shard.command("rollback", one) == DONE
    assert shard.cube.versions.view.version == one
    assert shard.command("pop", other) == DONE
    assert shard.cube.versions.loaded == [one]
    assert shard.command("check", other)["data"]["loaded"] is False
    assert shard.command("clear", other) == DONE
    assert not (shard.deploy / "data" / str(other)).exists()
    assert shard.command("check", other)["success"] == "255"
    refused = shard.command("clear", one)
    assert refused["success"] == "255"
    assert f"version {one} is in service and cannot be dropped" in refused["message"]


def test_a_refused_enable_is_no_success(shard: OneShard) -> None:
    version = shard.store.base(keys_from(1, 100))
    assert shard.command("download", version) == DONE
    answer = shard.command("enable", version)
    assert answer["success"] == "255"
    assert f"version {version} is not loaded here" in answer["message"]


@pytest.mark.parametrize("missing", ["command", "version", "depend"])
def test_a_command_that_lacks_something_is_invalid(shard: OneShard, missing: str) -> None:
    version = shard.store.base(keys_from(1, 10))
    body = {**shard.body("download", version), missing: ""}
    answer = shard.http.post(f"{shard.agent.web.address}/agent/cmd", json=body).json()
    assert answer == {"success": "255", "message": "Work is invalid", "data": ""}


@pytest.mark.parametrize(
    "change",
    [
        {"deploy_path": "/etc"},
        {"deploy_path": "{deploy}/../elsewhere"},
        {"dict_name": "../x"},
        {"dict_name": "a/b"},
        {"version": "../1"},
        {"depend": "1/../.."},
        {"shard_seq": "-1"},
        {"command": "format"},
        {"source": "file:///etc/passwd"},
        {"source": "http://"},
        {"version": 10**30},
        {"version": True},
    ],
)
def test_no_command_leaves_the_deploy_path(shard: OneShard, change: dict[str, object]) -> None:
    version = shard.store.base(keys_from(1, 10))
    filled = {key: str(value).replace("{deploy}", str(shard.deploy)) if isinstance(value, str) else value
              for key, value in change.items()}  # fmt: skip
    body = {**shard.body("download", version), **filled}
    before = sorted(path for path in shard.directory.rglob("*"))
    answer = shard.http.post(f"{shard.agent.web.address}/agent/cmd", json=body).json()
    assert answer["success"] == "255"
    assert sorted(path for path in shard.directory.rglob("*")) == before


def test_unknown_paths_are_told_which_there_are(shard: OneShard) -> None:
    answer = shard.http.get(f"{shard.agent.web.address}/agent/else").json()
    assert (answer["success"], answer["method"], answer["api"]) == ("2", "GET", "/agent/else")
    assert answer["api_list"] == ["/agent/status", "/agent/cmd"]


def test_commands_need_the_token(shard: OneShard) -> None:
    version = shard.store.base(keys_from(1, 10))
    body = shard.body("download", version)
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic YTpi"}):
        url = f"{shard.agent.web.address}/agent/cmd"
        assert httpx.post(url, json=body, headers=headers, trust_env=False).status_code == 401
        url = f"{shard.cube.web.address}/ControlService/cmd"
        assert httpx.post(url, json={"cmd": "bg_switch"}, headers=headers, trust_env=False).status_code == 401
    assert not (shard.deploy / "data" / str(version)).exists()


def test_one_command_at_a_time(shard: OneShard, monkeypatch: pytest.MonkeyPatch) -> None:
    version = shard.store.base(keys_from(1, 10))
    at_work, go_on = threading.Event(), threading.Event()

    def slow(_command: object, _file: object) -> None:
        at_work.set()
        assert go_on.wait(10)

    shard.agent.agent._handlers[DownloadCommand] = slow
    body = shard.body("download", version)
    answers = []
    thread = threading.Thread(target=lambda: answers.append(run_cube_command(shard.agent.agent, body)))
    thread.start()
    assert at_work.wait(10)
    again = shard.http.post(f"{shard.agent.web.address}/agent/cmd", json=body).json()
    assert again == {"success": "255", "message": "Another work with same key is doing.", "data": ""}
    go_on.set()
    thread.join()
    assert answers == [("0", "query ok", "")]


def test_seek(shard: OneShard) -> None:
    url = f"{shard.cube.web.address}/DictService/seek"
    request = {"keys": [1, 2, 999999], "version_required": True}
    empty = httpx.post(url, json=request, trust_env=False).json()
    assert empty == {"values": [{"status": 4294967295, "value": ""}] * 3, "version": ""}
    version = shard.store.base(keys_from(1, 100))
    shard.deliver(version)
    found = httpx.post(url, json=request, trust_env=False).json()
    assert found["version"] == str(version)
    assert [value["status"] for value in found["values"]] == [0, 0, 4294967295]
    wanted = rows_of(np.array([1, 2], np.uint64), version)
    for value, row in zip(found["values"], wanted, strict=False):
        assert np.array_equal(np.array(struct.unpack("<4f", base64.b64decode(value["value"])), np.float32), row)


def sought(shard: OneShard, key: int) -> tuple[int, float | None]:
    """The version that `seek` names, and the first number of the row it gives; None: it has no such key."""
    request = {"keys": [key], "version_required": True}
    answer = httpx.post(f"{shard.cube.web.address}/DictService/seek", json=request, trust_env=False).json()
    (value,) = answer["values"]
    row = struct.unpack("<4f", base64.b64decode(value["value"])) if value["status"] == 0 else (None,)
    return int(answer["version"]), row[0]


def test_seek_gives_rows_of_the_version_that_it_names(shard: OneShard) -> None:
    one, other = shard.store.base(keys_from(1, 50)), shard.store.base(keys_from(5, 100))
    rows = {version: float(rows_of(keys_from(7, 8), version)[0, 0]) for version in (one, other)}
    shard.deliver(one)
    assert [sought(shard, key) for key in (7, 2)] == [
        (one, rows[one]),
        (one, float(rows_of(keys_from(2, 3), one)[0, 0])),
    ]
    shard.deliver(other)
    assert [sought(shard, key) for key in (7, 2)] == [(other, rows[other]), (other, None)]
    assert shard.command("rollback", one) == DONE
    assert sought(shard, 7) == (one, rows[one])
    shard.restart_cube()
    assert sought(shard, 7) == (one, rows[one])


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[1]", b'{"keys": 1}', b'{"keys": [-1]}', b'{"keys": [1.5]}', b'{"keys": ["x"]}', b'{"keys": [true]}',
     b'{"keys": [18446744073709551616]}', b'{"keys": [1], "table": "none"}', b'{"keys": [1], "table": []}',
     b"[" * 100_000, b"x" * (2 << 20)],
)  # fmt: skip
def test_bad_requests_are_400(shard: OneShard, body: bytes) -> None:
    shard.deliver(shard.store.base(keys_from(1, 10)))
    answer = httpx.post(f"{shard.cube.web.address}/DictService/seek", content=body, trust_env=False)
    assert answer.status_code == 400


def test_control(shard: OneShard) -> None:
    assert shard.control(cmd="status").json() == {"cur_version": "", "bg_version": "", "status": 0}
    base = shard.store.base(keys_from(1, 100))
    patch = shard.store.delta(keys_from(5, 10))
    for version in (base, patch):
        shard.command("download", version)
    loaded = shard.control(cmd="bg_load_base", version_path=f"/{base}")
    assert (loaded.status_code, loaded.json()) == (200, {})
    assert shard.control(cmd="status").json() == {"cur_version": "", "bg_version": str(base), "status": 0}
    assert shard.control(cmd="bg_switch").status_code == 200
    assert shard.control(cmd="bg_load_patch", version_path=f"/{base}_{patch}").status_code == 200
    assert shard.control(cmd="status").json() == {"cur_version": str(base), "bg_version": str(patch), "status": 0}
    assert shard.control(cmd="enable", version=str(patch)).status_code == 200
    assert shard.control(cmd="enable", version=str(patch)).status_code == 200
    assert shard.control(cmd="status").json() == {"cur_version": str(patch), "bg_version": "", "status": 0}
    assert shard.control(cmd="bg_unload").status_code == 200
    assert shard.control(cmd="reload_base", version_path=f"/{base}").status_code == 200
    assert shard.cube.versions.view.version == base
    assert shard.control(cmd="reload_patch").status_code == 200
    assert shard.cube.versions.view.version == patch


def test_control_refuses(shard: OneShard) -> None:
    url = f"{shard.cube.web.address}/ControlService/cmd"
    assert shard.http.post(url, content=b"{").status_code == 400
    for asked in (
        {"cmd": "none"},
        {"cmd": "enable", "version": "7"},
        {"cmd": "enable"},
        {"cmd": "bg_switch"},
        {"cmd": "bg_load_base", "version_path": "/7"},
        {"cmd": "bg_load_base", "version_path": "/../7"},
        {"cmd": "bg_load_base", "version_path": "7"},
        {"cmd": "bg_load_patch", "version_path": "/7"},
        {"cmd": "reload_base"},
    ):
        assert shard.http.post(url, json=asked).status_code == 500, asked


def test_control_is_busy_while_it_loads(shard: OneShard, monkeypatch: pytest.MonkeyPatch) -> None:
    version = shard.store.base(keys_from(1, 100))
    shard.command("download", version)
    at_work, go_on = threading.Event(), threading.Event()
    real = shard.cube.load

    def slow(number: int) -> None:
        at_work.set()
        assert go_on.wait(10)
        real(number)

    monkeypatch.setattr(shard.cube, "load", slow)
    codes = []
    loading = {"cmd": "bg_load_base", "version_path": f"/{version}"}
    thread = threading.Thread(target=lambda: codes.append(shard.control(**loading).status_code))
    thread.start()
    assert at_work.wait(10)
    assert shard.control(cmd="bg_switch").status_code == 500
    assert shard.control(cmd="status").json()["status"] == 1
    go_on.set()
    thread.join()
    assert codes == [200]


def test_health_and_metrics(shard: OneShard) -> None:
    assert httpx.get(f"{shard.cube.web.address}/health", trust_env=False).status_code == 503
    version = shard.store.base(keys_from(1, 100))
    shard.deliver(version)
    assert httpx.get(f"{shard.cube.web.address}/health", trust_env=False).json()["version"] == version
    with shard.client() as client:
        client.get("embedding", keys_from(90, 110))
    httpx.post(f"{shard.cube.web.address}/DictService/seek", json={"keys": [1, 1000]}, trust_env=False)
    text = httpx.get(f"{shard.cube.web.address}/metrics", trust_env=False).text
    figures = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert float(figures["clickline_cube_keys_total"]) == 22
    assert float(figures["clickline_cube_missing_keys_total"]) == 11
    assert float(figures["clickline_cube_version"]) == version
