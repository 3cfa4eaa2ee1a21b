"""Strangers who hold connections to an agent and to a gateway, and say nothing or half of something."""

from __future__ import annotations

import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest

from support.cubes.local_shard import OneShard
from support.versions.version_stores import keys_from

_HOLD = """
import resource, socket, sys
port, count, said = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3].encode()
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
held = []
for _ in range(count):
    held.append(socket.create_connection(("127.0.0.1", port)))
    try:
        held[-1].sendall(said)
    except ConnectionError:
        pass
print("ready", flush=True)
sys.stdin.read()
"""
CROWD = 1024


def port_of(address: str) -> int:
    port = urlsplit(address).port
    assert port is not None
    return port


@contextmanager
def strangers(port: int, said: str) -> Iterator[None]:
    with subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(port), str(CROWD), said], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield
        process.stdin.close()


@pytest.fixture
def open_files() -> Iterator[None]:
    """Servers of these tests are in this process: they may have as many files as those that the verbs start."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize("said", ["", "POST /agent/cmd HTTP/1.1\r\nHost: x"], ids=["nothing", "half a head"])
@pytest.mark.usefixtures("open_files")
def test_silent_connections_do_not_keep_an_order_from_an_agent(shard: OneShard, said: str) -> None:
    version = shard.store.base(keys_from(1, 10))
    with strangers(port_of(shard.agent.web.address), said), strangers(port_of(shard.cube.web.address), said):
        shard.deliver(version)
        assert shard.control(cmd="status").json()["cur_version"] == str(version)
        assert shard.agent.web.connections < CROWD // 4
    with shard.client() as client:
        assert client.version in (0, version)
        assert client.get("embedding", [1]).version == version


@pytest.mark.parametrize("path", ["/agent/cmd", "/ControlService/cmd"])
def test_the_token_is_looked_for_before_the_body_is_read(shard: OneShard, path: str) -> None:
    web = shard.agent.web if path == "/agent/cmd" else shard.cube.web
    assert web is not None
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 900000\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", web.port), timeout=10) as stranger:
        stranger.sendall(head)  # and nothing of the body
        assert stranger.recv(100).startswith(b"HTTP/1.1 401 ")


def test_a_command_without_the_token_has_few_bytes(shard: OneShard) -> None:
    assert shard.cube.web is not None
    with socket.create_connection(("127.0.0.1", shard.cube.web.port), timeout=10) as stranger:
        stranger.sendall(b"POST /ControlService/cmd HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        stranger.sendall(b"1000\r\n" + bytes(0x1000) + b"\r\n")  # and no last chunk
        assert stranger.recv(100).startswith(b"HTTP/1.1 400 ")
    asked = shard.http.post(
        f"{shard.cube.web.address}/ControlService/cmd", json={"cmd": "status"}, headers={"Authorization": ""}
    )
    assert asked.status_code == 200
