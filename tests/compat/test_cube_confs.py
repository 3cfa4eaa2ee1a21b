"""transfer.conf and cube.conf: literal samples, and every mistake with its key, its value and what is expected."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickline.compat.cube.cube_conf import parse_cube_conf, read_cube_conf
from clickline.compat.cube.transfer_conf import parse_transfer_conf, read_transfer_conf
from clickline.errors import JobError
from support.fuzz.budget import budgeted

TRANSFER = """\
# what cube-transfer delivers
[default]
dict_name: test_dict   # the table
mode: base_delta
download_mode: http
wget_port: 8098
buildtool_local: /cube/cube-builder
donefile_address: http://127.0.0.1:8080/data/ctr_cube/donefile/
output_address: /cube/output //built files
tmp_address= /cube/tmp
shard_num: 2
copy_num: 1
deploy_path: /cube
transfer_address: 127.0.0.1

[cube_agent]
agent0_0: 127.0.0.1:8001
cube0_0: 127.0.0.1:8027:/cube
agent1_0: [::1]:8002
cube1_0: 10.0.0.2:8028:/cube/two
"""
CUBE: dict[str, Any] = {
    "dict_name": "test_dict",
    "shard": 2,
    "dup": 2,
    "timeout": 200,
    "retry": 3,
    "backup_request": 100,
    "type": "ipport_list",
    "load_balancer": "rr",
    "nodes": [{"ipport_list": "list://10.0.0.1:8027,10.0.0.2:8027"}, {"ipport_list": "list://10.0.0.3:8027"}],
}


def test_a_transfer_conf_is_read(tmp_path: Path) -> None:
    (tmp_path / "transfer.conf").write_text(TRANSFER)
    conf = read_transfer_conf(tmp_path / "transfer.conf")
    assert conf.default.dict_name == "test_dict"
    assert conf.default.donefile_address == "http://127.0.0.1:8080/data/ctr_cube/donefile/"
    assert (conf.default.output_address, conf.default.tmp_address) == ("/cube/output", "/cube/tmp")
    assert (conf.default.shard_num, conf.default.wget_port) == (2, 8098)
    first, second = conf.instances
    assert (first.agent_host, first.agent_port, first.cube_port, first.deploy_path) == (
        "127.0.0.1",
        8001,
        8027,
        "/cube",
    )
    assert (second.shard, second.copy_number, second.agent_host, second.deploy_path) == (1, 0, "::1", "/cube/two")


DEFAULTS = [line.split(":")[0].split("=")[0] for line in TRANSFER.splitlines()[2:14]]


@pytest.mark.parametrize("key", DEFAULTS)
def test_each_key_of_a_transfer_conf_is_required(key: str) -> None:
    text = "".join(line for line in TRANSFER.splitlines(keepends=True) if not line.startswith(key))
    with pytest.raises(JobError, match=rf"transfer\.conf: \[default\] {key} is missing$"):
        parse_transfer_conf(text)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("mode: base_delta", "mode: delta", "mode must be 'base_only' or 'base_delta', got 'delta'"),
        ("download_mode: http", "download_mode: scp", "download_mode must be 'http' or 'ftp', got 'scp'"),
        ("8098", "80980", "wget_port must be less than or equal to 65535, got '80980'"),
        ("shard_num: 2", "shard_num: two", "shard_num must be a valid integer.*got 'two'"),
        ("shard_num: 2", "shard_num: 0", "shard_num must be greater than or equal to 1, got '0'"),
        ("deploy_path: /cube", "deploy_path:", "deploy_path must be .*at least 1 character, got ''"),
        ("test_dict", "../up", "dict_name must be .*got '../up'"),
        ("shard_num: 2", "shard_num: 1", "agent1_0 is not known: there are 1 shards × 1 copies"),
        ("shard_num: 2", "shard_num: 3", "agent2_0 is missing; .*cube2_0 is missing"),
        ("127.0.0.1:8001", "127.0.0.1", "agent0_0 must be IP:PORT, got '127.0.0.1'"),
        ("127.0.0.1:8001", "127.0.0.1:x", "agent0_0 must be IP:PORT, got '127.0.0.1:x'"),
        ("127.0.0.1:8027:/cube", "127.0.0.1:8027", "cube0_0 must be IP:PORT:/DEPLOY/PATH, got '127.0.0.1:8027'"),
        ("127.0.0.1:8027:/cube", "127.0.0.1:0:/cube", "cube0_0 must be IP:PORT:/DEPLOY/PATH"),
        ("agent0_0:", "agentx:", "agent0_0 is missing; .*agentx is not known"),
        ("[default]", "[Default]", r"the section \[default\] is missing"),
        ("[default]", "", "line 3: dict_name comes before the first section"),
        ("copy_num: 1", "copy_num: 1\ncopy_num: 1", "line 13: copy_num is there twice"),
        ("copy_num: 1", "copy_num", "line 12: 'key: value' is expected, got 'copy_num'"),
        ("[cube_agent]", "[default]", r"line 16: '\[default\]' is not a new section"),
        ("[cube_agent]", "[cube_agent", "is not a new section"),
    ],
)
def test_each_mistake_in_a_transfer_conf_is_named(before: str, after: str, message: str) -> None:
    assert before in TRANSFER
    with pytest.raises(JobError, match=message):
        parse_transfer_conf(TRANSFER.replace(before, after, 1))


def test_all_mistakes_are_said_at_once() -> None:
    with pytest.raises(JobError) as error:
        parse_transfer_conf("[default]\nmode: x\n")
    assert str(error.value).count("is missing") == 11
    assert "mode must be" in str(error.value)


def test_a_cube_conf_is_read(tmp_path: Path) -> None:
    other = CUBE | {
        "dict_name": "second",
        "type": "ipport",
        "nodes": [{"ip": "a", "port": 1}, {"ip": "::1", "port": 2}],
    }
    single = CUBE | {"dict_name": "third", "type": "ipport_parallel", "nodes": [{"ip": "a", "port": 1}]}
    del other["load_balancer"]
    (tmp_path / "cube.conf").write_text(json.dumps([CUBE, other, single]))
    first, second, third = read_cube_conf(tmp_path / "cube.conf")
    assert first.shards() == [["10.0.0.1:8027", "10.0.0.2:8027"], ["10.0.0.3:8027"]]
    assert (second.shards(), second.load_balancer) == ([["a:1"], ["[::1]:2"]], "rr")
    assert third.shards() == [["a:1"], ["a:1"]]


@pytest.mark.parametrize("key", [key for key in CUBE if key not in ("load_balancer", "nodes")])
def test_each_key_of_a_cube_conf_is_required_and_of_its_type(key: str) -> None:
    with pytest.raises(JobError, match=rf"{key} is missing"):
        parse_cube_conf(json.dumps([{name: value for name, value in CUBE.items() if name != key}]))
    wrong: object = "5" if isinstance(CUBE[key], int) else 5
    with pytest.raises(JobError, match=rf"{key} must be .*, got {wrong!r}"):
        parse_cube_conf(json.dumps([CUBE | {key: wrong}]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"type": "dns"}, "type must be 'ipport', 'ipport_list' or 'ipport_parallel', got 'dns'"),
        ({"shard": 0}, "shard must be greater than or equal to 1, got 0"),
        ({"shard": True}, "shard must be a valid integer, got True"),
        ({"nodes": []}, "has 2 nodes, one for each shard; it has 0"),
        ({"nodes": [{"ip": "a", "port": 1}] * 2}, "its nodes are .*list://"),
        ({"type": "ipport"}, 'its nodes are {"ip": …, "port": …}'),
        ({"nodes": [{"ipport_list": "10.0.0.1:1"}] * 2}, "ipport_list must be .*got '10.0.0.1:1'"),
    ],
)
def test_each_mistake_in_a_cube_conf_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(JobError, match=message):
        parse_cube_conf(json.dumps([CUBE | change]))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("{}", "must be an array"),
        ("[]", "must be an array"),
        ("[1]", r"\[0\] it must be a valid dictionary"),
        (json.dumps([CUBE, CUBE]), "dict_name 'test_dict' is there twice"),
        ("[" * 200_000, "not JSON|nested too deeply"),
    ],
)
def test_what_is_no_cube_conf_is_refused(text: str, message: str) -> None:
    with pytest.raises(JobError, match=message):
        parse_cube_conf(text)


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    for read in (read_transfer_conf, read_cube_conf):
        with pytest.raises(JobError, match="cannot be read: No such file"):
            read(tmp_path / "nothing")
        with pytest.raises(JobError, match="not text in UTF-8"):
            read(tmp_path / "bytes")


@budgeted
@given(st.lists(st.sampled_from([*TRANSFER.splitlines(), "[x]", ": ", "=", "# x", "a: b // c"]) | st.text(max_size=9)))
def test_any_transfer_conf_is_read_or_refused(lines: list[str]) -> None:
    for text in ("\n".join(lines), TRANSFER + "\n".join(lines)):
        try:
            parse_transfer_conf(text)
        except JobError as error:
            assert str(error).startswith("transfer.conf")


leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
trees = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner), max_leaves=6
)


@budgeted
@given(st.dictionaries(st.sampled_from(list(CUBE)), trees) | trees)
def test_any_cube_conf_is_read_or_refused(change: Any) -> None:
    whole = [CUBE | change] if isinstance(change, dict) else change
    try:
        parse_cube_conf(json.dumps(whole))
    except JobError as error:
        assert str(error).startswith("cube.conf")
