"""Connections that begin as HTTP/2 does go to the gRPC server's own socket, byte by byte."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import uvloop

from clickline.serve.http.admission import ByteBudget
from clickline.serve.http.connection import Connection
from clickline.serve.http.connection_table import ConnectionTable, ConnectionTimeouts
from clickline.serve.http.grpc_relay import GrpcRelay
from support.doubles.serving_doubles import serving
from support.serving.raw_http import Talk, get

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


@pytest.fixture
def relaying(tmp_path: Path) -> Iterator[tuple[int, Path]]:
    """A server of connections whose gRPC server is whoever listens at the path."""
    path = tmp_path / "grpc.sock"
    loop = uvloop.new_event_loop()
    listening = socket.create_server(("127.0.0.1", 0))

    async def run() -> None:
        table = ConnectionTable(
            loop=loop,
            body_limit=1000,
            most=10,
            unauthenticated=None,
            budget=ByteBudget(1000),
            timeouts=ConnectionTimeouts(),
            relay=GrpcRelay(path, loop=loop),
        )
        nobody: Any = None  # no request gets as far as a handler
        async with await loop.create_server(lambda: Connection(table, nobody, nobody), sock=listening):
            await stop.wait()
        for connection in list(table.connections):
            connection.abort()

    stop = asyncio.Event()
    thread = threading.Thread(target=lambda: loop.run_until_complete(run()), daemon=True)
    thread.start()
    yield listening.getsockname()[1], path
    loop.call_soon_threadsafe(stop.set)
    thread.join(20)
    loop.close()


def test_both_directions_pass_and_ends_are_passed_on(relaying: tuple[int, Path]) -> None:
    port, path = relaying
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
            client.sendall(PREFACE[:2])  # even this little is enough to wait for more
            client.sendall(PREFACE[2:] + b"frames")
            inner, _ = listener.accept()
            with closing(inner):
                inner.settimeout(20)
                found = b""
                while len(found) < len(PREFACE) + 6:
                    found += inner.recv(1000)
                assert found == PREFACE + b"frames"
                inner.sendall(b"answer")
                assert client.recv(1000) == b"answer"
            assert client.recv(1000) == b""


def test_the_inner_side_may_speak_first(relaying: tuple[int, Path]) -> None:
    port, path = relaying

    def greet() -> None:
        inner, _ = listener.accept()
        with closing(inner):
            inner.sendall(b"hello")  # as servers of HTTP/2 do
            while inner.recv(1000):
                pass

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        for _ in range(50):
            greeting = threading.Thread(target=greet)
            greeting.start()
            with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
                client.sendall(PREFACE)
                assert client.recv(1000) == b"hello"
            greeting.join(20)


def test_who_does_not_read_slows_the_other_side_down_and_nothing_is_lost(relaying: tuple[int, Path]) -> None:
    port, path = relaying
    large = bytes(range(256)) * (4 << 12)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
            client.sendall(PREFACE)
            inner, _ = listener.accept()
            with closing(inner):
                inner.settimeout(20)
                assert inner.recv(1000) == PREFACE
                sending = threading.Thread(target=inner.sendall, args=(large,))
                sending.start()
                found = bytearray()
                while len(found) < len(large):
                    found += client.recv(1 << 20)
                sending.join(20)
                assert found == large


def test_a_server_without_grpc_closes_such_connections(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        with server.connect() as connection:
            connection.sendall(PREFACE)
            assert connection.recv(10) == b""
        with server.connect() as connection:
            talk = Talk(connection)
            talk.send(get("/v2/health/live"))
            assert talk.read().status == 200


def test_if_grpc_has_died_the_connection_is_closed(relaying: tuple[int, Path]) -> None:
    port, _ = relaying
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        client.sendall(PREFACE)
        assert client.recv(10) == b""
