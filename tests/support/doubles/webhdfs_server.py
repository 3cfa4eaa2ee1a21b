"""A small HTTP server that speaks WebHDFS over a directory: a name node and a data node at one address.

As the real ones do, the name node answers OPEN, CREATE and APPEND with a redirect to the data node.

`python -m support.doubles.webhdfs_server DIRECTORY ADDRESS` is one as a program, for a network of its own. The account,
USER:PASSWORD, comes by its standard input, and the port is printed.
"""

from __future__ import annotations

import json
import shutil
import sys
import threading
from base64 import b64decode
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit


class WebHdfsServer:
    def __init__(self, root: Path, *, address: str = "127.0.0.1", account: str = "") -> None:
        """`account` is USER:PASSWORD, without which every request is refused; empty: everybody may do everything."""
        self.root, self.address, self.account = root, address, account
        root.mkdir(parents=True, exist_ok=True)
        self.operations: Counter[str] = Counter()
        self.users: set[str] = set()
        self.safe_mode = False
        """Refuse every change, as a name node does that has just started."""
        self.cut_reads = 0
        """So many reads end in the middle."""
        handler = type("Handler", (_Handler,), {"hdfs": self})
        self._server = ThreadingHTTPServer((address, 0), handler)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"webhdfs://{self.address}:{self.port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    hdfs: WebHdfsServer
    protocol_version = "HTTP/1.1"

    def parse_request(self) -> bool:
        if not super().parse_request():
            return False
        given = self.headers.get("Authorization", "").removeprefix("Basic ")
        if self.hdfs.account and b64decode(given).decode() != self.hdfs.account:
            self._body()
            self._fail(401, "AuthorizationException", "who are you?")
            return False
        return True

    def do_GET(self) -> None:
        operation, path, asked = self._read()
        if operation in ("GETFILESTATUS", "LISTSTATUS") and not path.exists():
            self._fail(404, "FileNotFoundException", f"File does not exist: {path.name}")
        elif operation == "GETFILESTATUS":
            self._answer({"FileStatus": _status(path)})
        elif operation == "LISTSTATUS":
            entries = sorted(path.iterdir()) if path.is_dir() else [path]
            self._answer({"FileStatuses": {"FileStatus": [_status(one, suffix=one.name) for one in entries]}})
        elif operation == "OPEN" and not self._at_data_node:
            self._redirect()
        elif operation == "OPEN":
            begin = int(asked.get("offset", "0"))
            content = path.read_bytes()[begin : begin + int(asked.get("length", str(1 << 60)))]
            self._send(200, content, cut=self.hdfs.cut_reads > 0)

    def do_PUT(self) -> None:
        body = self._body()
        operation, path, asked = self._read()
        if self.hdfs.safe_mode:
            self._fail(403, "SafeModeException", "Name node is in safe mode")
        elif operation == "MKDIRS":
            path.mkdir(parents=True, exist_ok=True)
            self._answer({"boolean": True})
        elif operation == "RENAME":
            path.rename(self._path(asked["destination"]))
            self._answer({"boolean": True})
        elif operation == "CREATE" and not self._at_data_node:
            self._redirect()
        elif operation == "CREATE":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(body)
            self._send(201, b"")

    def do_POST(self) -> None:
        body = self._body()
        operation, path, _ = self._read()
        if operation == "APPEND" and not self._at_data_node:
            self._redirect()
        elif operation == "APPEND":
            with path.open("ab") as file:
                file.write(body)
            self._send(200, b"")

    def do_DELETE(self) -> None:
        _, path, _ = self._read()
        existed = path.exists()
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
        self._answer({"boolean": existed})

    @property
    def _at_data_node(self) -> bool:
        return "datanode=1" in self.path

    def _read(self) -> tuple[str, Path, dict[str, str]]:
        split = urlsplit(self.path)
        asked = {name: values[0] for name, values in parse_qs(split.query).items()}
        operation = asked["op"]
        self.hdfs.operations[operation] += 1
        self.hdfs.users.add(asked.get("user.name", ""))
        return operation, self._path(unquote(split.path).removeprefix("/webhdfs/v1")), asked

    def _path(self, name: str) -> Path:
        path = (self.hdfs.root / name.lstrip("/")).resolve()
        assert path.is_relative_to(self.hdfs.root.resolve())
        return path

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", "0")))

    def _redirect(self) -> None:
        self.send_response(307)
        self.send_header(
            "Location", f"http://{self.hdfs.address}:{self.hdfs.port}{quote(self.path, safe='/?=&%')}&datanode=1"
        )
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _answer(self, found: dict[str, Any]) -> None:
        self._send(200, json.dumps(found).encode())

    def _fail(self, status: int, exception: str, message: str) -> None:
        self._send(status, json.dumps({"RemoteException": {"exception": exception, "message": message}}).encode())

    def _send(self, status: int, content: bytes, *, cut: bool = False) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if cut:
            self.hdfs.cut_reads -= 1
            self.wfile.write(content[: len(content) // 2])
            self.close_connection = True
        else:
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: requests are counted."""


def _status(path: Path, *, suffix: str = "") -> dict[str, Any]:
    is_directory = path.is_dir()
    return {
        "pathSuffix": suffix,
        "type": "DIRECTORY" if is_directory else "FILE",
        "length": 0 if is_directory else path.stat().st_size,
        "modificationTime": int(path.stat().st_mtime * 1000),
    }


if __name__ == "__main__":
    server = WebHdfsServer(Path(sys.argv[1]), address=sys.argv[2], account=sys.stdin.readline().strip())
    sys.stdout.write(f"{server.port}\n")
    sys.stdout.flush()
    threading.Event().wait()
