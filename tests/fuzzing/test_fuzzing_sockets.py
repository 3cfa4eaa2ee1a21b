"""Requests that are no HTTP any more, over sockets: an answer or a closed connection, and the server lives on."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from fuzz_mutations import mutated
from hypothesis import given
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from clickline.cube.webserving import WebServer, json_object
from clickline.publish.fileserver import FileServer
from fuzz_budget import budgeted, judged

PATIENCE = 10.0


async def _body(request: Request) -> Response:
    try:
        return JSONResponse(await json_object(request))
    except ValueError:
        return JSONResponse({}, status_code=400)


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[int]]:
    """A file server; and what agent, transfer and gateway have in common: a server with a JSON body."""
    root: Path = tmp_path_factory.mktemp("served")
    (root / "slot.conf").write_text("slots: 26\n", encoding="utf-8")
    app = Starlette(routes=[Route("/{path:path}", _body, methods=["GET", "POST", "PUT"])])
    with FileServer(root, token=b"a token for tests only", upload_limit=1 << 20, upload_idle=1.0) as files:
        web = WebServer(app, host="127.0.0.1", port=0)
        yield [int(files.address.rpartition(":")[2]), web.port]
        web.close()


def spoken(request: bytes) -> bytes:
    """As it goes over a socket: lines of HTTP."""
    head, _, body = request.partition(b"\n\n")
    line, *headers = head.split(b"\n")
    if b"content-length" not in head.lower():
        headers.append(b"Content-Length: %d" % len(body))
    return b"\r\n".join([line + b" HTTP/1.1", b"Host: x", b"Connection: close", *headers]) + b"\r\n\r\n" + body


def answered(port: int, request: bytes) -> bool:
    answer = b""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
        with suppress(ConnectionError):
            connection.sendall(request)
            if not select.select([connection], [], [], 0.2)[0]:  # it waits for more
                connection.shutdown(socket.SHUT_WR)
        with suppress(ConnectionError):
            while data := connection.recv(1 << 16):
                answer += data
    assert not answer or answer.startswith(b"HTTP/1.1 "), answer[:200]
    assert answer[9:10] != b"5", answer[:500]
    return answer[9:10] == b"2"


@budgeted(default=40)
@given(mutated("files", split=b"\n\n"))
def test_garbled_requests_to_a_file_server(ports: list[int], request_bytes: bytes) -> None:
    judged("sockets-files", lambda data: answered(ports[0], spoken(data)), request_bytes)
    assert httpx.get(f"http://127.0.0.1:{ports[0]}/health", trust_env=False).status_code == 200


@budgeted(default=40)
@given(mutated("control", split=b"\n\n"))
def test_garbled_requests_with_json(ports: list[int], request_bytes: bytes) -> None:
    judged("sockets-json", lambda data: answered(ports[1], spoken(data)), request_bytes)
