"""An FTP server that knows just what fsspec asks of it: one directory, read only."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class _Session(socketserver.StreamRequestHandler):
    root: Path

    def handle(self) -> None:
        self._data: socket.socket | None = None
        self._answer("220 ready")
        self._converse()
        if self._data is not None:
            self._data.close()

    def _converse(self) -> None:
        while line := self.rfile.readline().decode().strip():
            verb, _, argument = line.partition(" ")
            place = self.root / argument.lstrip("/")
            match verb.upper():
                case "USER" | "PASS":
                    self._answer("230 come in")
                case "TYPE" | "CWD" | "OPTS":
                    self._answer("200 fine")
                case "PWD":
                    self._answer('257 "/"')
                case "PASV" | "EPSV":
                    self._listen(verb.upper())
                case "SIZE" if place.is_file():
                    self._answer(f"213 {place.stat().st_size}")
                case "MLSD" if place.is_dir():
                    kinds = {True: "dir", False: "file"}
                    lines = [f"type={kinds[i.is_dir()]};size={i.stat().st_size}; {i.name}" for i in place.iterdir()]
                    self._send("".join(line + "\r\n" for line in lines).encode())
                case "RETR" if place.is_file():
                    self._send(place.read_bytes())
                case "REST":
                    self._answer("350 from the start" if argument == "0" else "502 not here")
                case "QUIT":
                    self._answer("221 bye")
                    return
                case _:
                    self._answer("550 no such thing")

    def _listen(self, verb: str) -> None:
        if self._data is not None:
            self._data.close()
        self._data = socket.create_server(("127.0.0.1", 0))
        port = self._data.getsockname()[1]
        passive = f"227 ok (127,0,0,1,{port >> 8},{port & 255})"
        self._answer(passive if verb == "PASV" else f"229 ok (|||{port}|)")

    def _send(self, data: bytes) -> None:
        assert self._data is not None
        self._answer("150 here it comes")
        connection, _ = self._data.accept()
        with connection, self._data:
            connection.sendall(data)
        self._data = None
        self._answer("226 that was it")

    def _answer(self, text: str) -> None:
        self.wfile.write(text.encode() + b"\r\n")


@contextmanager
def ftp_server(root: Path) -> Iterator[str]:
    """Its address, such as ftp://127.0.0.1:2121."""
    session = type("Session", (_Session,), {"root": root})
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), session) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield f"ftp://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()
