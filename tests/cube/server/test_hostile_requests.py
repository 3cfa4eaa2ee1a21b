"""Whatever comes as a command, a request or a tar: an answer or an error of ours, never a crash."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clickline.compat.cube.http.agent_routes import run_cube_command
from clickline.compat.cube.http.seek import seek
from clickline.compat.cube.http.server_control import CubeControl
from clickline.cube.server.server_metrics import HttpReadCounters
from clickline.cube.shard_files import read_shard
from clickline.errors import VersionError
from support.cubes.local_shard import OneShard
from support.versions.version_stores import keys_from

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=8,
)
TEXTS = st.sampled_from(["../..", "/etc/passwd", "\0", "1", "-1", "9" * 40, "http://", "file:///", "٣", "a;b", ""])
FEW = settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], database=None
)


COMMANDS = st.sampled_from(["download", "reload", "enable", "check", "clear", "pop", "rollback"])
NUMBERS = st.just("3") | TEXTS | ANYTHING
OTHERS = ("dict_name", "deploy_path", "shard_seq", "source", "port", "sha256", "number", "peers")
CONTROLS = st.sampled_from(
    ["bg_load_base", "bg_load_patch", "bg_switch", "bg_unload", "reload_base", "reload_patch", "enable", "status"]
)


@FEW
@given(
    asked=st.fixed_dictionaries(
        {"command": COMMANDS | ANYTHING, "version": NUMBERS, "depend": NUMBERS},
        optional=dict.fromkeys(OTHERS, TEXTS | ANYTHING),
    )
)
def test_agent_commands(shard: OneShard, asked: dict[str, Any]) -> None:
    code, message, _ = run_cube_command(shard.agent.agent, asked)
    assert code in ("0", "255")
    assert message
    assert {path.name for path in shard.directory.iterdir()} <= {"store", "deploy", "builds", "c.sock"}


@FEW
@given(asked=st.dictionaries(st.sampled_from(["keys", "table", "version_required"]), ANYTHING))
def test_seeks(shard: OneShard, asked: dict[str, Any]) -> None:
    try:
        found = seek(shard.cube.versions.view, asked, HttpReadCounters())
    except ValueError:
        return
    assert len(found["values"]) == len(asked["keys"])


@FEW
@given(
    name=st.sampled_from(
        ["bg_load_base", "bg_load_patch", "bg_switch", "bg_unload", "reload_base", "enable", "status"]
    ),
    asked=st.dictionaries(st.sampled_from(["version_path", "version"]), TEXTS | ANYTHING),
)
def test_control_commands(shard: OneShard, name: str, asked: dict[str, Any]) -> None:
    status, answer = CubeControl(shard.cube).run({"cmd": name, **asked})
    assert status in (200, 500)
    assert isinstance(answer, dict)


def test_tars_with_flipped_and_missing_bytes(shard: OneShard, tmp_path: Path) -> None:
    content = (shard.build(shard.store.base(keys_from(1, 50))).path / "test_dict_part0.tar").read_bytes()
    random = np.random.default_rng(1)
    file = tmp_path / "x.tar"
    for _ in range(300):
        changed = bytearray(content)
        for place in random.integers(0, min(len(content), 3000), random.integers(1, 6)):
            changed[place] = random.integers(0, 256)
        file.write_bytes(changed[: random.integers(0, len(changed) + 1)] if random.random() < 0.3 else changed)
        try:
            found = read_shard(file)
        except VersionError:
            continue
        for place in found.tables.values():
            assert place.offset + place.length <= file.stat().st_size
            try:
                place.open().lookup(keys_from(1, 50))
            except (RuntimeError, ValueError):
                continue


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'"x"', b"\xff", b"[" * 100_000, b'{"a":' * 50_000])
def test_bodies(shard: OneShard, body: bytes) -> None:
    answer = shard.http.post(f"{shard.agent.web.address}/agent/cmd", content=body)
    assert (answer.status_code, answer.json()["success"]) == (400, "255")
    assert shard.http.post(f"{shard.cube.web.address}/ControlService/cmd", content=body).status_code == 400
