"""A closed loop of HTTP requests from one thread: each client sends its next request when it has its last answer.

The same few lines of Python drive every contender, so what they cost is in all figures alike.
"""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

import numpy as np

LENGTH = b"content-length:"


@dataclass
class Client:
    """One connection with one request under way."""

    socket: socket.socket
    sent: float = 0.0
    head: bytes = b""
    """What has come until the headers were whole."""
    missing: int = -1
    """Bytes of the body that are still to come; -1 while the headers are not there."""


def request_bytes(method: str, url: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> bytes:
    parts = urlsplit(url)
    lines = [f"{method} {parts.path or '/'} HTTP/1.1", f"Host: {parts.netloc}", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def measured(url: str, request: bytes, *, clients: int, seconds: float, expected: bytes = b"200") -> dict[str, float]:
    """Requests a second, and percentiles in microseconds. Raises ValueError for another status."""
    parts = urlsplit(url)
    times: list[float] = []
    with selectors.DefaultSelector() as selector:
        everybody = [Client(socket.create_connection((parts.hostname, parts.port), 10)) for _ in range(clients)]
        begun = time.perf_counter()
        for client in everybody:
            client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            selector.register(client.socket, selectors.EVENT_READ, client)
            _send(client, request)
        while time.perf_counter() - begun < seconds or not times:
            for key, _ in selector.select(5):
                client = key.data
                if _received(client, expected):
                    times.append(time.perf_counter() - client.sent)
                    _send(client, request)
        lasted = time.perf_counter() - begun
        for client in everybody:
            client.socket.close()
    p50, p99 = np.percentile(times, [50, 99]) * 1e6
    return {"requests/s": len(times) / lasted, "p50 µs": float(p50), "p99 µs": float(p99)}


def _send(client: Client, request: bytes) -> None:
    client.head, client.missing, client.sent = b"", -1, time.perf_counter()
    client.socket.sendall(request)


def _received(client: Client, expected: bytes) -> bool:
    """Whether the answer is whole now."""
    part = client.socket.recv(1 << 20)
    if not part:
        raise ValueError("the server closed a connection in the middle of an answer")
    if client.missing >= 0:
        client.missing -= len(part)
        return client.missing <= 0
    client.head += part
    end = client.head.find(b"\r\n\r\n")
    if end < 0:
        return False
    if client.head[9:12] != expected:
        raise ValueError(f"expected status {expected!r}, not {client.head[:200]!r}")
    _, _, after = client.head[:end].lower().partition(LENGTH)
    body = int(after.split(b"\r\n", 1)[0]) if after else 0
    client.missing = body - (len(client.head) - end - 4)
    return client.missing <= 0
