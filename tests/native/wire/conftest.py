"""Servers, lanes and proxies that are closed after each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from clickline._native import Lane, WireServer
from support.doubles.wire_peers import TOKEN, Proxy


def echo(name: str, client: int, op: str, body: memoryview) -> list[Any]:
    return [op.encode(), b" ", body]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., WireServer]]:
    servers: list[WireServer] = []

    def make(address: str = "", **settings: Any) -> WireServer:
        settings = {"token": TOKEN, "job": "clicks", "name": f"pserver.{len(servers)}", "handler": echo} | settings
        servers.append(WireServer(address or f"unix:{tmp_path}/{len(servers)}.sock", **settings))
        return servers[-1]

    yield make
    for server in servers:
        server.close()


@pytest.fixture
def connect() -> Iterator[Callable[..., Lane]]:
    lanes: list[Lane] = []

    def make(*servers: WireServer | Proxy | str, **settings: Any) -> Lane:
        addresses = [server if isinstance(server, str) else server.address for server in servers]
        defaults = {"token": TOKEN, "job": "clicks", "name": "trainer.0", "client": 7, "lane": 0, "retry_for": 20.0}
        lanes.append(Lane(addresses, **(defaults | settings)))
        return lanes[-1]

    yield make
    for lane in lanes:
        lane.close()


@pytest.fixture
def meddle() -> Iterator[Callable[[WireServer], Proxy]]:
    proxies: list[Proxy] = []

    def make(server: WireServer) -> Proxy:
        proxies.append(Proxy(server.address))
        return proxies[-1]

    yield make
    for proxy in proxies:
        proxy.close()
