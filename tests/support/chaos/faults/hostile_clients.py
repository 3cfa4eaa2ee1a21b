"""Strangers: bytes that no client of ours would send, to every port that listens. None of them has the token.

Each sends something, waits for a moment, and goes away; then somebody polite must be answered as always.
"""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from urllib.parse import urlsplit

from support.chaos.faults.fault import Fault, NotNow

_POLITE_WITHIN = 15.0
_HEALTH = {
    "predictor": "/v2/health/live",
    "fileserver": "/health",
    "transfer": "/dict/info",
    "agent": "/agent/status",
    "cube": "/health",
}
_HOST = b"Host: x\r\n"
Attack = Callable[[list[socket.socket], random.Random], None]


def connect_with_body(connections: list[socket.socket], _rng: random.Random) -> None:
    connections[0].sendall(b"CONNECT x:1 HTTP/1.1\r\n" + _HOST + b"Content-Length: 1\r\n\r\n")


def upgrade_with_body(connections: list[socket.socket], _rng: random.Random) -> None:
    head = b"POST /predict HTTP/1.1\r\n" + _HOST + b"Connection: upgrade\r\nUpgrade: chat\r\nContent-Length: 3\r\n\r\n"
    connections[0].sendall(head + b"abc")


def half_heads(connections: list[socket.socket], rng: random.Random) -> None:
    head = b"POST /predict HTTP/1.1\r\n" + _HOST + b"Content-Length: 10\r\nX-Long: abcdefgh\r\n\r\n"
    for connection in connections:
        connection.sendall(head[: rng.randrange(1, len(head))])


def silence(_connections: list[socket.socket], _rng: random.Random) -> None:
    pass


def http2_preface(connections: list[socket.socket], _rng: random.Random) -> None:
    for connection in connections:
        connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\x04\0\0\0\0\0")


def tiny_chunks(connections: list[socket.socket], _rng: random.Random) -> None:
    connection = connections[0]
    connection.sendall(b"POST /predict HTTP/1.1\r\n" + _HOST + b"Transfer-Encoding: chunked\r\n\r\n")
    for _ in range(40):
        connection.sendall(b"2\r\nab\r\n" * 1000)


def many_headers(connections: list[socket.socket], _rng: random.Random) -> None:
    connections[0].sendall(b"GET / HTTP/1.1\r\n" + _HOST + b"a:b\r\n" * 20_000 + b"\r\n")


def pipelined(connections: list[socket.socket], _rng: random.Random) -> None:
    connections[0].sendall((b"GET /v2/health/live HTTP/1.1\r\n" + _HOST + b"\r\n") * 200)


def garbage(connections: list[socket.socket], rng: random.Random) -> None:
    for connection in connections:
        connection.sendall(rng.randbytes(rng.choice([1, 16, 64, 4096, 65536])))


def slow_reader(connections: list[socket.socket], _rng: random.Random) -> None:
    for connection in connections:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall((b"GET /openapi.json HTTP/1.1\r\n" + _HOST + b"\r\n") * 50)


ATTACKS: dict[str, tuple[Attack, int]] = {
    "CONNECT with a body": (connect_with_body, 1),
    "upgrade with a body": (upgrade_with_body, 1),
    "half heads": (half_heads, 60),
    "silence": (silence, 120),
    "HTTP/2 preface": (http2_preface, 60),
    "tiny chunks": (tiny_chunks, 1),
    "20,000 headers": (many_headers, 1),
    "pipelined": (pipelined, 1),
    "garbage": (garbage, 8),
    "never reads": (slow_reader, 10),
}
"""What is sent, and over how many connections."""


class HostileClient(Fault):
    """Any of the above, over HTTP or the wire."""

    name = "hostile client"

    def inject(self) -> str:
        what = self.random.choice(sorted(ATTACKS))
        attack, count = ATTACKS[what]
        address = self._address()
        self.workload.books.event(f"{what} to {self.target}")
        with ExitStack() as stack:
            connections = []
            for _ in range(count):
                with suppress(OSError):  # it may refuse more, or be dead at the moment
                    connections.append(stack.enter_context(_connected(address)))
            if not connections:
                raise NotNow(f"{self.target} does not listen")
            with suppress(OSError):  # it may have closed the connection already: all the better
                attack(connections, self.random)
            self.hold(0.5, 3.0)
        self._ask_politely(what)
        self.workload.books.count(**{f"hostile: {what}": 1})
        return "answered others"

    def _address(self) -> str:
        role = self.target.rpartition(".")[0]
        if role in ("pserver", "trainer"):
            return self.workload.training_address(self.target)
        if role == "cube" and self.random.random() < 0.5:
            rank = int(self.target.rpartition(".")[2])
            return [address for shard in self.workload.suite.cube.servers for address in shard][rank]
        url = urlsplit(self.workload.suite.url(self.target))
        if not url.port:
            raise NotNow(f"{self.target} does not listen")
        return f"tcp:127.0.0.1:{url.port}"

    def _ask_politely(self, what: str) -> None:
        """By HTTP, where there is any; a parameter server is asked by its trainers all the time."""
        role = self.target.rpartition(".")[0]
        if role not in _HEALTH:
            return
        suite, began, said = self.workload.suite, time.monotonic(), "nothing"
        while time.monotonic() < began + _POLITE_WITHIN:
            try:
                with _connected(suite.url(self.target).replace("http://", "tcp:")) as connection:
                    connection.settimeout(5.0)
                    connection.sendall(f"GET {_HEALTH[role]} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
                    said = connection.recv(64).decode("latin-1")
                    if said.startswith("HTTP/1.1 ") and said[9:12] not in ("429", "503"):
                        return
            except (OSError, ValueError) as error:
                said = repr(error)
            if self.over.wait(0.2):
                return
        if suite.pid(self.target) is not None and not self.workload.harmed_lately(self.target):
            self.workload.books.promise_broken(
                "strangers cost nobody anything", f"{self.target} did not answer after {what}: {said}"
            )


def _connected(address: str) -> socket.socket:
    if address.startswith("unix:"):
        connection = socket.socket(socket.AF_UNIX)
        target: object = address.removeprefix("unix:")
    else:
        connection = socket.socket()
        host, port = address.removeprefix("tcp:").rsplit(":", 1)
        target = (host, int(port))
    connection.settimeout(5.0)
    try:
        connection.connect(target)
    except BaseException:
        connection.close()
        raise
    return connection
