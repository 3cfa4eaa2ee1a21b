"""Cube servers, in this process or their own, and clients; all are closed after each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from clickline._native import CubeClient, CubeServer
from support.cubes.native_servers import JOB, TOKEN, ServerProcess


@pytest.fixture
def serve() -> Iterator[Callable[..., CubeServer]]:
    servers: list[CubeServer] = []

    def make(address: str = "tcp:127.0.0.1:0", **settings: Any) -> CubeServer:
        servers.append(CubeServer(address, **({"name": "cube", "job": JOB, "token": TOKEN} | settings)))
        return servers[-1]

    yield make
    for server in servers:
        server.close()


@pytest.fixture
def spawn() -> Iterator[Callable[[], ServerProcess]]:
    processes: list[ServerProcess] = []

    def make() -> ServerProcess:
        processes.append(ServerProcess())
        return processes[-1]

    yield make
    for process in processes:
        process.kill()


@pytest.fixture
def connect() -> Iterator[Callable[..., CubeClient]]:
    clients: list[CubeClient] = []

    def make(shards: list[list[str]], **settings: Any) -> CubeClient:
        clients.append(CubeClient(shards, **({"name": "reader", "job": JOB, "token": TOKEN} | settings)))
        return clients[-1]

    yield make
    for client in clients:
        client.close()
