"""The client's face: arrays, decoded rows, async, Cube's codes, cube.conf; the verbs around it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import numpy as np
import pytest

from clickline.compat.cube.cube_conf import connect_by_conf
from clickline.cube.cube_client import ALL_FAILED, NO_SUCH_KEY, OK, UNKNOWN, Cube
from clickline.errors import JobError
from support.cubes.local_shard import NAME, TOKEN, OneShard
from support.processes import ENVIRONMENT, run
from support.versions.version_stores import VersionStore, keys_from, rows_of


def test_rows_status_and_version(shard: OneShard) -> None:
    version = shard.store.base(keys_from(1, 100))
    shard.deliver(version)
    keys = np.array([5, 5, 500, 7], np.uint64)
    with shard.client() as cube:
        found = cube.get("embedding", keys)
        assert (found.version, found.code, len(found), found.dim) == (version, OK, 4, 4)
        assert found.status.tolist() == [0, 0, 1, 0]
        assert np.array_equal(found.decoded()[[0, 1, 3]], rows_of(keys[[0, 1, 3]], version))
        assert not found.decoded()[2].any()
        assert found.value(0) == rows_of(keys[:1], version).tobytes()
        assert found.value(2) == b""
        later = asyncio.run(cube.get_async("embedding", keys))
        assert np.array_equal(later.values, found.values)
        assert cube.seek("embedding", 5) == (OK, found.value(0))
        assert cube.seek("embedding", 500) == (NO_SUCH_KEY, b"")
        assert cube.counts()["gets"] >= 4


def test_nobody_there() -> None:
    with Cube.connect([["unix:/nowhere/at.sock"]], name=NAME, token=TOKEN, timeout=0.1, retries=0) as cube:
        found = cube.get("embedding", [1, 2])
        assert (found.code, found.status.tolist()) == (ALL_FAILED, [UNKNOWN, UNKNOWN])
        assert cube.seek("embedding", 1) == (ALL_FAILED, b"")


def test_cube_conf(tmp_path: Path) -> None:
    one = {"shard": 1, "dup": 1, "timeout": 200, "retry": 1, "backup_request": 5, "type": "ipport_list"}
    nodes = [{"ipport_list": "list://127.0.0.1:1,127.0.0.1:2"}]
    dictionaries = [{"dict_name": name, **one, "nodes": nodes} for name in ("a", "b")]
    (tmp_path / "cube.conf").write_text(json.dumps(dictionaries))
    with connect_by_conf(tmp_path / "cube.conf", name="b", token=TOKEN) as cube:
        assert cube.get("t", [1]).code == ALL_FAILED
    with pytest.raises(JobError, match="It has: a, b"):
        connect_by_conf(tmp_path / "cube.conf", token=TOKEN)


@pytest.mark.heavy
def test_the_verbs(shard: OneShard, store: VersionStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(ENVIRONMENT, "CLICKLINE_TOKEN", TOKEN.decode())
    shard.deliver(store.base(keys_from(1, 100)))
    where = ("--servers", shard.cube.native.address, "--name", NAME)
    found = run("cube", "get", "embedding", "5", *where, "--json")
    assert found.returncode == 0, found.stderr
    (row,) = json.loads(found.stdout)["rows"]
    assert (row["found"], row["value"]) == (True, rows_of(keys_from(5, 6), 1)[0].tolist())
    assert run("cube", "get", "embedding", "5", "1000", *where).returncode == 1
    (tmp_path / "keys").write_text("1\n2\n3\n")
    options = ("--keys", str(tmp_path / "keys"), "--batch", "10", "--threads", "2", "--requests", "20")
    found = run("cube", "bench", "embedding", *where, *options, "--json")
    told = json.loads(found.stdout)
    assert (told["requests"], told["failed"], told["missing_keys"]) == (40, 0, 0)
    assert list(told["microseconds"]) == ["avg", "50", "80", "90", "99", "99.9"]
    refused = run("cube", "get", "embedding", "5", "--servers", "unix:/nowhere.sock", "--name", NAME)
    assert refused.returncode == 7
