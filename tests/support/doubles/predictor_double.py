"""A predictor in little, over real sockets: what it is asked is kept, and what it answers can be set beforehand.

A row's probability is its I1 in hundredths, so that a test can tell whose answer it has.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

METADATA = {
    "name": "ctr",
    "versions": ["7"],
    "platform": "clickline",
    "inputs": [
        {"name": "I1", "datatype": "FP32", "shape": [-1]},
        {"name": "C1", "datatype": "BYTES", "shape": [-1]},
        {"name": "tags", "datatype": "BYTES", "shape": [-1, -1]},
    ],
    "outputs": [{"name": "probability", "datatype": "FP32", "shape": [-1, 1]}],
}
Behaviour = Callable[["Handler"], bool]
"""Does something instead of answering; whether the request is to be answered all the same."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server: PredictorDouble

    def setup(self) -> None:
        super().setup()
        with self.server.lock:
            self.server.connections += 1
            self.server.opened.append(self.connection)

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._handle(b"")

    def do_POST(self) -> None:
        self._handle(self.rfile.read(int(self.headers["Content-Length"])))

    def answer(self, body: Any, status: int = 200, **headers: str) -> None:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def _handle(self, body: bytes) -> None:
        server = self.server
        with server.lock:
            server.asked.append((self.path, dict(self.headers), body))
            behaviour = server.script.popleft() if server.script and self.command == "POST" else None
        if behaviour is not None and not behaviour(self):
            return
        if self.path == "/v2/health/ready":
            self.answer({"ready": server.ready}, 200 if server.ready else 503)
        elif self.path == "/status":
            self.answer({"ready": server.ready, "default": "ctr", "models": {"ctr": {"version": server.version}}})
        elif self.path == "/v2/models/ctr":
            self.answer(METADATA)
        elif self.path.endswith("/predict"):
            self._plain(json.loads(body))
        elif self.path.endswith("/infer"):
            self._infer(body)
        elif self.path == "/ElasticCTRPredictionService/inference":
            found = [{"prob0": 0.75, "prob1": 0.25} for _ in json.loads(body)["instances"]]
            self.answer({"predictions": found, "err_code": 0, "err_msg": ""})
        else:
            self.answer({"error": f"there is nothing at {self.path}", "reason": "unknown_path"}, 404)

    def _plain(self, asked: dict[str, Any]) -> None:
        rows = asked["instances"]
        if unknown := next((name for row in rows for name in row if name not in ("I1", "C1", "tags")), None):
            self.answer({"error": f"instance 0: '{unknown}' is no feature", "reason": "unknown_feature"}, 400)
            return
        found = [float(row.get("I1") or 0) / 100 for row in rows]
        missing = sum("I1" not in row for row in rows)
        said = {"predictions": found, "version": self.server.version, "model": "ctr", "missing": missing}
        self.answer(said | ({"variant": "a"} if "key" in asked else {}))

    def _infer(self, body: bytes) -> None:
        length = self.headers.get("Inference-Header-Content-Length")
        head = json.loads(body[: int(length)] if length else body)
        values = next(_numbers(*found) for found in _inputs(head, body, length) if found[0]["name"] == "I1") / 100
        output: dict[str, Any] = {"name": "probability", "datatype": "FP32", "shape": [len(values), 1]}
        said = {
            "model_name": "ctr",
            "model_version": str(self.server.version),
            "outputs": [output],
            "parameters": {"version": self.server.version, "tag": ""},
        }
        if not length:
            output["data"] = values.tolist()
            self.answer(said)
            return
        output["parameters"] = {"binary_data_size": 4 * len(values)}
        raw = json.dumps(said).encode()
        tail = values.astype("<f4").tobytes()
        self.answer(raw + tail, Inference_Header_Content_Length=str(len(raw)))


def _inputs(head: dict[str, Any], body: bytes, length: str | None) -> list[tuple[dict[str, Any], Any]]:
    found, at = [], int(length or 0)
    for one in head["inputs"]:
        size = one.get("parameters", {}).get("binary_data_size", 0)
        found.append((one, body[at : at + size] if length else one["data"]))
        at += size
    assert not length or at == len(body)
    return found


def _numbers(described: dict[str, Any], data: Any) -> np.ndarray:
    kinds = {"INT64": "<i8", "FP64": "<f8"}
    if isinstance(data, bytes):
        if described["datatype"] == "BYTES":
            return np.array([float(text or 0) for text in texts(data)])
        return np.frombuffer(data, kinds[described["datatype"]])
    return np.array([float(value or 0) for value in data])


def texts(data: bytes) -> list[str]:
    found, at = [], 0
    while at < len(data):
        (size,) = struct.unpack_from("<I", data, at)
        found.append(data[at + 4 : at + 4 + size].decode())
        at += 4 + size
    return found


class PredictorDouble(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.lock = threading.Lock()
        self.script: deque[Behaviour] = deque()
        """For the next predictions, one each."""
        self.asked: list[tuple[str, dict[str, str], bytes]] = []
        self.connections, self.version, self.ready = 0, 7, True
        self.opened: list[socket.socket] = []
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def stop(self) -> None:
        self.shutdown()
        self.server_close()
        for connection in self.opened:
            with suppress(OSError):  # its client was first
                connection.shutdown(socket.SHUT_RDWR)
        self._thread.join()

    def handle_error(self, *_: Any) -> None:
        """Clients go away in the middle of things here."""


def refuse(status: int, reason: str, **headers: str) -> Behaviour:
    def behave(handler: Handler) -> bool:
        handler.answer({"error": f"no: {reason}", "reason": reason}, status, **headers)
        return False

    return behave


def hang_up(handler: Handler) -> bool:
    """The connection is closed without an answer."""
    handler.close_connection = True
    return False


def wait(seconds: float) -> Behaviour:
    def behave(_: Handler) -> bool:
        time.sleep(seconds)
        return True

    return behave


def answer_bytes(raw: bytes) -> Behaviour:
    """Sent as they are; the connection is closed afterwards."""

    def behave(handler: Handler) -> bool:
        handler.wfile.write(raw)
        handler.wfile.flush()
        handler.close_connection = True
        return False

    return behave
