"""A cube server whose answers a test writes, byte for byte, from docs/reference/wire.md alone."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import select
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from support.cubes.native_servers import JOB, TOKEN
from support.doubles.wire_peers import AUTH, GET, HELLO, REPLY, WELCOME, frame, receive, text

NAME = "cube"
LIMIT = 1 << 20
ROW = struct.pack("<4f", 1, 2, 3, 4)


@dataclass
class Request:
    """A GET, and the connection it came by."""

    number: int
    version: int
    count: int
    peer: socket.socket

    def reply(self, *, version: int | None = None, count: int | None = None, number: int | None = None) -> bytes:
        """A frame as it should be, except for what is named."""
        head = struct.pack("<QQQIIII", self.version if version is None else version, 1, 1, 1, 4, 16, 0)
        keys = self.count if count is None else count
        payload = head + struct.pack("<Q", keys) + bytes(-(-keys // 8) * 8) + ROW * keys
        return frame(REPLY, payload, number=self.number if number is None else number)

    def followed(self, until: threading.Event) -> bool:
        """Waits for the event. True: another request came by this connection before."""
        while not until.is_set():
            if select.select([self.peer], [], [], 0.005)[0]:
                return self.peer.recv(1, socket.MSG_PEEK) != b""  # nothing: the connection has ended
        return False


@contextlib.contextmanager
def scripted_cube(answer: Callable[[Request], bytes]) -> Iterator[str]:
    """Answers each GET with what `answer` returns; yields its address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threads: list[threading.Thread] = []
        peers: list[socket.socket] = []

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    peers.append(listening.accept()[0])
                    threads.append(threading.Thread(target=serve, args=(peers[-1],)))
                    threads[-1].start()

        def serve(peer: socket.socket) -> None:
            with contextlib.suppress(OSError, EOFError):
                _greet(peer)
                while True:
                    kind, number, payload = receive(peer)
                    assert kind == GET
                    _, version, count = struct.unpack_from("<QQQ", payload)
                    peer.sendall(answer(Request(number, version, count, peer)))

        accepting = threading.Thread(target=accept)
        accepting.start()
        try:
            yield f"tcp:127.0.0.1:{listening.getsockname()[1]}"
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            accepting.join()
            for peer in peers:
                with contextlib.suppress(OSError):
                    peer.shutdown(socket.SHUT_RDWR)
            for thread in threads:
                thread.join()
            for peer in peers:
                peer.close()


def _greet(peer: socket.socket) -> None:
    """The server's half of the handshake."""
    nonce = bytes(range(32))
    peer.sendall(frame(HELLO, struct.pack("<HH", 1, 1) + text(JOB) + text(NAME) + nonce))
    kind, _, auth = receive(peer)
    assert kind == AUTH
    said, theirs = auth[:-64], auth[-64:-32]
    message = b"clickline server" + nonce + theirs + said + text(NAME) + struct.pack("<Q", LIMIT)
    peer.sendall(frame(WELCOME, struct.pack("<Q", LIMIT) + hmac.new(TOKEN, message, hashlib.sha256).digest()))
