"""HTTP as bytes on a socket, for what no well-behaved client would send."""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass
from typing import Any


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Talk:
    """A connection, and answers read from it one by one."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self._rest = b""

    def send(self, *parts: bytes) -> None:
        self.socket.sendall(b"".join(parts))

    def read(self, *, head: bool = False) -> Reply:
        """The next answer; of HEAD, only its head."""
        while b"\r\n\r\n" not in self._rest:
            self._more()
        first, _, self._rest = self._rest.partition(b"\r\n\r\n")
        lines = first.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        status = int(lines[0].split()[1])
        length = 0 if head or status < 200 else int(headers.get("content-length", "0"))
        while len(self._rest) < length:
            self._more()
        body, self._rest = self._rest[:length], self._rest[length:]
        return Reply(status, headers, body)

    def ended(self) -> bool:
        """Whether the server has closed the connection, with nothing left to read."""
        if self._rest:
            return False
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def _more(self) -> None:
        found = self.socket.recv(1 << 16)
        if not found:
            raise EOFError(f"the connection ended after {self._rest!r}")
        self._rest += found


def get(path: str, *headers: str, method: str = "GET", version: str = "1.1") -> bytes:
    lines = [f"{method} {path} HTTP/{version}", "Host: here", *headers, "", ""]
    return "\r\n".join(lines).encode("latin-1")


def post(path: str, body: bytes, *headers: str, version: str = "1.1") -> bytes:
    lines = [f"POST {path} HTTP/{version}", "Host: here", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode("latin-1") + body


def chunked(path: str, *pieces: bytes) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    return head + b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
