"""Requests that are no HTTP any more, over sockets: an answer or a closed connection, and the server lives on.

And requests that are never finished, or whose answer is never read: the connection ends, whatever the client does.
"""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from clickline.fileserver.file_server import FileServer
from clickline.net.http_connections import HttpLimits
from clickline.net.http_server import HttpServer
from clickline.net.web_server import WebServer, json_object
from support.eventually import eventually
from support.fuzz.budget import budgeted, judged
from support.fuzz.mutations import mutated

PATIENCE = 10.0


async def _body(request: Request) -> Response:
    try:
        return JSONResponse(await json_object(request, trusted=False))
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


SHORT = HttpLimits(
    head_seconds=0.5, idle_seconds=0.5, rest_seconds=0.5, rest_bytes=1 << 16, write_seconds=1.5, headless=8, idle=8
)
LARGE = 24 << 20
"""Bytes: more than the system keeps for a client that does not read."""


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, HttpServer]]:
    root: Path = tmp_path_factory.mktemp("impatient")
    (root / "slot.conf").write_text("slots: 26\n", encoding="utf-8")
    (root / "large").write_bytes(bytes(LARGE))
    app = Starlette(routes=[Route("/{path:path}", _body, methods=["GET", "POST", "PUT"])])
    with FileServer(root, token=b"a token for tests only", upload_idle=0.5, limits=SHORT) as files:
        web = WebServer(app, host="127.0.0.1", port=0, limits=SHORT)
        yield {"files": files, "json": web}
        web.close()


def connected(server: HttpServer, *, buffer: int = 0) -> socket.socket:
    client = socket.socket()
    client.settimeout(PATIENCE)
    if buffer:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    client.connect(("127.0.0.1", int(server.address.rpartition(":")[2])))
    return client


def ends(client: socket.socket) -> bool:
    """Reads until the server closes, or fails by the socket's timeout."""
    with suppress(ConnectionError):
        while client.recv(1 << 16):
            pass
    return True


FULL = b"GET /health HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"


@pytest.mark.parametrize(
    "said",
    [
        pytest.param([], id="nothing"),
        pytest.param([b"G"], id="a letter"),
        pytest.param([b"GET / HTTP/1.1\r\nHost: x\r\nX-Endless: "], id="half a head"),
        pytest.param([FULL, b"GET / HT"], id="half a head after a request"),
        pytest.param([FULL], id="nothing after a request"),
        pytest.param([b"PUT /x HTTP/1.1\r\nHost: x\r\nContent-Length: 99999\r\n\r\nhalf"], id="half a body unread"),
        pytest.param(
            [b"GET /health HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n"], id="half a chunk"
        ),
    ],
)
@pytest.mark.parametrize("name", ["files", "json"])
def test_a_connection_that_says_no_more_ends(
    impatient: dict[str, HttpServer], name: str, said: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clickline.net.web_server.BODY_SECONDS", 0.5)
    with connected(impatient[name]) as client:
        for part in said:
            client.sendall(part)
        assert ends(client)


@pytest.mark.parametrize("name", ["files", "json"])
def test_a_head_that_comes_letter_by_letter_ends(impatient: dict[str, HttpServer], name: str) -> None:
    with connected(impatient[name]) as client:
        gone = threading.Event()

        def trickle() -> None:
            with suppress(ConnectionError):
                while not gone.wait(0.02):
                    client.sendall(b"a")

        client.sendall(b"GET / HTTP/1.1\r\nX: ")
        thread = threading.Thread(target=trickle)
        thread.start()
        assert ends(client)
        gone.set()
        thread.join()


def test_a_body_that_nobody_wants_is_cut_off(impatient: dict[str, HttpServer]) -> None:
    with connected(impatient["files"]) as client:
        client.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n")
        sent = 0
        with suppress(ConnectionError):
            while sent < 99_999_999:
                sent += client.send(bytes(1 << 16))
        assert sent < 50_000_000


def test_a_client_that_does_not_read_is_cut_off(impatient: dict[str, HttpServer]) -> None:
    with connected(impatient["files"], buffer=4096) as client:
        client.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        eventually(lambda: impatient["files"].connections >= 1)
        eventually(lambda: impatient["files"].connections == 0)
        got = 0
        with suppress(ConnectionError):
            while data := client.recv(1 << 20):
                got += len(data)
        assert got < LARGE


def test_a_client_that_reads_slowly_is_not_cut_off(impatient: dict[str, HttpServer]) -> None:
    with connected(impatient["files"], buffer=1 << 16) as client:
        client.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        pause, got = threading.Event(), 0
        while data := client.recv(1 << 18):
            got += len(data)
            pause.wait(0.002)
        assert got > LARGE


@pytest.mark.parametrize("said", [b"", b"G", FULL])
@pytest.mark.parametrize("name", ["files", "json"])
def test_silent_connections_do_not_crowd_out_others(impatient: dict[str, HttpServer], name: str, said: bytes) -> None:
    server = impatient[name]
    clients: list[socket.socket] = []
    try:
        for _ in range(60):
            clients.append(connected(server))
            with suppress(ConnectionError):
                clients[-1].sendall(said)
            assert server.connections <= SHORT.headless + SHORT.idle + 2
        answer = httpx.request("GET", f"{server.address}/health", content=b"{}", trust_env=False)
        assert answer.status_code == 200
    finally:
        for client in clients:
            client.close()


def hostile(server: HttpServer, seed: int) -> Callable[[], None]:
    """One of the clients above."""

    def act() -> None:
        with connected(server) as client, suppress(ConnectionError):
            client.sendall([b"", b"G", b"GET / HTTP/1.1\r\nHost: ", FULL + FULL[:20], b"\0" * 99][seed % 5])
            if seed % 2:
                client.shutdown(socket.SHUT_WR)
            assert ends(client)

    return act


def test_many_of_them_at_once_leave_nothing_behind(impatient: dict[str, HttpServer]) -> None:
    servers = list(impatient.values())
    threads = [threading.Thread(target=hostile(servers[n % 2], n)) for n in range(60)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    eventually(lambda: all(server.connections == 0 for server in servers))
