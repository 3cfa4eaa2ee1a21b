"""Our own protocol between transfer and agent: what is executed, what is refused, and by which code."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import msgspec
import pytest

from clickline.cube.agent_messages import (
    COMMAND_PATH,
    SERVER_PATH,
    AgentReply,
    AgentReplyCode,
    CheckCommand,
    DownloadCommand,
    DropCommand,
    LoadCommand,
    RemoveCommand,
    RollBackCommand,
    SwitchCommand,
)
from clickline.cube.transfer.agent_client import AgentClient, DamagedBuildError
from clickline.errors import PeerError, VersionError
from support.cubes.local_shard import NAME, TOKEN, OneShard
from support.versions.version_stores import keys_from


@pytest.fixture
def agent(shard: OneShard) -> Iterator[AgentClient]:
    client = AgentClient(shard.agent.web.address, name=NAME, token=TOKEN)
    yield client
    client.close()


def target(shard: OneShard, version: int) -> dict[str, Any]:
    return {"name": NAME, "shard": 0, "version": version, "base": shard.build(version).record.base}


def download(shard: OneShard, version: int, **changes: Any) -> DownloadCommand:
    build = shard.build(version)
    source = f"{shard.files.address}/{build.source(0)}"
    fields = {"source": source, "sha256": build.file(0).sha256, **changes}
    return DownloadCommand(**target(shard, version), **fields)


def test_a_version_is_downloaded_loaded_served_and_removed(shard: OneShard, agent: AgentClient) -> None:
    one, other = shard.store.base(keys_from(1, 50)), shard.store.base(keys_from(1, 80))
    for number, version in enumerate((one, other), 1):
        agent.run(download(shard, version))
        assert version in agent.server_status().complete
        agent.run(LoadCommand(**target(shard, version)))
        assert version in agent.server_status().loaded
        agent.run(SwitchCommand(**target(shard, version), number=number, peers=("tcp:a:1",)))
        status = agent.server_status()
        assert (status.version, status.number) == (version, number)
    assert shard.cube.versions.peers == ["tcp:a:1"]
    reply = shard.agent.agent.run(CheckCommand(**target(shard, other)))
    assert reply.code is AgentReplyCode.DONE and reply.file is not None
    assert (reply.file.loaded, reply.file.in_service) == (True, True)
    agent.run(RollBackCommand(**target(shard, one), number=7))
    assert (agent.server_status().version, agent.server_status().number) == (one, 7)
    agent.run(DropCommand(**target(shard, other)))
    assert agent.server_status().loaded == (one,)
    agent.run(RemoveCommand(**target(shard, other)))
    assert agent.server_status().complete == (one,)


def test_a_damaged_file_has_a_code_of_its_own(shard: OneShard, agent: AgentClient) -> None:
    version = shard.store.base(keys_from(1, 50))
    with pytest.raises(DamagedBuildError, match="its sha256 is"):
        agent.run(download(shard, version, sha256="0" * 64))
    assert agent.server_status().complete == ()


def test_what_the_server_refuses_is_refused(shard: OneShard, agent: AgentClient) -> None:
    version = shard.store.base(keys_from(1, 50))
    with pytest.raises(VersionError, match=f"version {version} is not loaded here"):
        agent.run(SwitchCommand(**target(shard, version), number=1))


def test_an_agent_that_cannot_be_reached_is_a_peer_error(shard: OneShard, agent: AgentClient) -> None:
    version = shard.store.base(keys_from(1, 50))
    command = LoadCommand(**target(shard, version))
    shard.agent.web.close()
    with pytest.raises(PeerError, match=COMMAND_PATH):
        agent.run(command)
    with pytest.raises(PeerError, match=SERVER_PATH):
        agent.server_status()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"command": "format"}',
        b'{"command": "load"}',
        b'{"command": "load", "name": "d", "shard": 0, "version": "1", "base": 1}',
        b'{"command": "load", "name": "d", "shard": 0, "version": -1, "base": 1}',
        b'{"command": "load", "name": "d", "shard": 0, "version": 1e30, "base": 1}',
        b'{"command": "load", "name": "d", "shard": 0, "version": 1, "base": 1, "server_port": 65536}',
    ],
)
def test_a_body_that_is_not_a_command_is_invalid(shard: OneShard, body: bytes) -> None:
    answer = shard.http.post(f"{shard.agent.web.address}{COMMAND_PATH}", content=body)
    assert answer.status_code == 400
    assert msgspec.json.decode(answer.content, type=AgentReply).code is AgentReplyCode.INVALID


@pytest.mark.parametrize(
    "change",
    [{"deploy_path": "/etc"}, {"deploy_path": "x" * 5000}, {"deploy_path": "a\0b"}, {"name": "../x"}, {"name": ""}],
)
def test_nothing_outside_of_the_deployment_is_touched(shard: OneShard, change: dict[str, str]) -> None:
    version = shard.store.base(keys_from(1, 50))
    command = msgspec.structs.replace(download(shard, version), **change)
    before = sorted(shard.directory.rglob("*"))
    assert shard.agent.agent.run(command).code is AgentReplyCode.INVALID
    assert sorted(shard.directory.rglob("*")) == before


def test_commands_need_the_token(shard: OneShard) -> None:
    body = msgspec.json.encode(download(shard, shard.store.base(keys_from(1, 50))))
    for headers in ({}, {"Authorization": "Bearer wrong"}):
        url = f"{shard.agent.web.address}{COMMAND_PATH}"
        assert httpx.post(url, content=body, headers=headers, trust_env=False).status_code == 401
    assert shard.cube.versions.disk.complete() == []
