"""The wire spoken in Python, from docs/reference/wire.md alone: peers that lie, a proxy that damages what passes."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import socket
import struct
import threading
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from clickline._native import xxh64

TOKEN = b"a secret of this job"
HELLO, AUTH, WELCOME, REFUSE, CALL, PULL, PUSH, REPLY, ERROR, GET, BUSY = range(1, 12)


def keys_in_order(count: int, *, seed: int = 0) -> NDArray[np.uint64]:
    keys = np.unique(np.random.default_rng(seed).integers(0, 1 << 63, count, dtype=np.uint64))
    with np.errstate(over="ignore"):
        buckets = (keys * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(52)
    return keys[np.argsort(buckets, kind="stable")]


def header(
    kind: int, *, length: int, number: int = 0, hash_: int = 0, version: int = 1, magic: bytes = b"CLKW"
) -> bytes:
    front = struct.pack("<4sHHQQQI", b"CLKW", version, kind, length, number, hash_, 0)
    return front + struct.pack("<I", xxh64(front) & 0xFFFFFFFF)


def frame(kind: int, payload: bytes, *, number: int = 0) -> bytes:
    return header(kind, length=len(payload), number=number, hash_=xxh64(payload)) + payload


def exactly(peer: socket.socket, size: int) -> bytes:
    got = b""
    while len(got) < size:
        more = peer.recv(size - len(got))
        if not more:
            raise EOFError(f"{len(got)} of {size} bytes, then the end")
        got += more
    return got


def receive(peer: socket.socket) -> tuple[int, int, bytes]:
    """Kind, number and payload of the next frame, everything checked."""
    bytes_ = exactly(peer, 40)
    magic, version, kind, length, number, hash_, reserved, check = struct.unpack("<4sHHQQQII", bytes_)
    assert (magic, version, reserved) == (b"CLKW", 1, 0)
    assert check == xxh64(bytes_[:36]) & 0xFFFFFFFF
    payload = exactly(peer, length)
    assert hash_ == xxh64(payload)
    return kind, number, payload


def ended(peer: socket.socket) -> bool:
    """Waits for the end; True if nothing came before it. What we had sent and nobody read makes it a reset."""
    try:
        return peer.recv(100) == b""
    except ConnectionResetError:
        return True


def text(value: str) -> bytes:
    return struct.pack("<H", len(value.encode())) + value.encode()


def dial(address: str) -> socket.socket:
    if address.startswith("unix:"):
        peer = socket.socket(socket.AF_UNIX)
        peer.settimeout(5)
        peer.connect(address[5:])
        return peer
    host, port = address[4:].rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout=5)


def authenticate(
    peer: socket.socket, *, token: bytes, job: str, client: int = 1, lane: int = 0, name: str = "raw", version: int = 1
) -> tuple[int, bytes]:
    """The client's half of the handshake; returns the kind and payload of the server's answer."""
    kind, _, hello = receive(peer)
    if kind == REFUSE:
        return kind, hello
    assert kind == HELLO
    at = 4
    for _ in range(2):  # the job, the server's name
        (size,) = struct.unpack_from("<H", hello, at)
        server, at = hello[at + 2 : at + 2 + size].decode(), at + 2 + size
    nonce = bytes(range(32))
    message = b"clickline client" + hello[at:] + nonce + struct.pack("<H", version) + text(job) + text(name)
    message += struct.pack("<QI", client, lane) + text(server) + struct.pack("<Q", 0)
    proof = hmac.new(token, message, hashlib.sha256).digest()
    auth = struct.pack("<H", version) + text(job) + text(name) + struct.pack("<QI", client, lane) + nonce + proof
    peer.sendall(frame(AUTH, auth))
    kind, _, answer = receive(peer)
    return kind, answer


def call_payload(op: str, body: bytes, *, sequence: int = 0) -> bytes:
    padding = bytes(-len(op.encode()) % 8)
    return struct.pack("<QHHI", sequence, len(op.encode()), 0, 0) + op.encode() + padding + body


class Proxy:
    """Passes everything on to `target`, except where told: the next reply or request is garbled or cut off."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.garble_reply = threading.Event()
        self.garble_request = threading.Event()
        self.cut_reply = threading.Event()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"tcp:127.0.0.1:{self._listening.getsockname()[1]}"
        self._threads = [threading.Thread(target=self._accept)]
        self._sockets: list[socket.socket] = []
        self._threads[0].start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = dial(self.target)
                server.settimeout(None)
                self._sockets += [client, server]
                for source, sink, replies in ((client, server, False), (server, client, True)):
                    thread = threading.Thread(target=self._pump, args=(source, sink, replies))
                    self._threads.append(thread)
                    thread.start()

    def _pump(self, source: socket.socket, sink: socket.socket, replies: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                passed = data
                garble = self.garble_reply if replies else self.garble_request
                if replies and self.cut_reply.is_set():
                    self.cut_reply.clear()
                    break
                if garble.is_set():
                    garble.clear()
                    passed = data[:-1] + bytes([data[-1] ^ 4])
                sink.sendall(passed)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._threads[0].join()
        for each in self._sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for each in self._sockets:
            each.close()


@contextlib.contextmanager
def fake_server(answer: bytes) -> Iterator[str]:
    """Says `answer` to whoever connects, whatever they say, and closes; yields its address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def run() -> None:
            with contextlib.suppress(OSError):
                while True:
                    client, _ = listening.accept()
                    with client, contextlib.suppress(OSError):
                        client.sendall(answer)
                        client.shutdown(socket.SHUT_WR)
                        client.settimeout(5)
                        while client.recv(4096):
                            pass

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield f"tcp:127.0.0.1:{listening.getsockname()[1]}"
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()
