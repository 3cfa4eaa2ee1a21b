"""Clients that mean harm, against a worker with a real model that asks for a token: each is refused or closed, costs
little memory, and the same worker goes on to answer others, rightly."""

from __future__ import annotations

import select
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any

import numpy as np
import pytest

from support.eventually import eventually
from support.serving.predictor_worker import TOKEN, PredictorWorker
from support.serving.raw_http import Talk, chunked, get, post
from support.versions.model_versions import TOLERANCE, ModelVersions

Record = Callable[[str, object], None]
AUTH = f"Authorization: Bearer {TOKEN}"
LIVE = "/v2/health/live"
SHORT = {"head": 0.6, "body": 1.0, "idle": 1.0, "writing": 1.0, "linger": 0.3}
ROWS = 5


@pytest.fixture(scope="module")
def worker(versions: ModelVersions, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PredictorWorker]:
    with PredictorWorker(
        tmp_path_factory.mktemp("guarded"), versions.path, public=True, limits={"timeout": 30.0}
    ) as made:
        yield made
        assert "Traceback" not in made.log.read_text()


def answers_rightly(worker: PredictorWorker, versions: ModelVersions) -> None:
    found = worker.predict(versions.instances[:ROWS])
    np.testing.assert_allclose(found, versions.expected(1)[:ROWS], rtol=0, atol=TOLERANCE)


CONNECT = b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n"
UPGRADE = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: eA==")
H2C = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk")
TRAILER = "POST /predict HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTrailer: Authorization\r\n\r\n"
REFUSED: dict[str, tuple[bytes, int]] = {
    "CONNECT with a body": (CONNECT + b"Content-Length: 1\r\n\r\nx", 501),
    "CONNECT whose body does not come": (CONNECT + b"Content-Length: 1\r\n\r\n", 501),
    "CONNECT without a body": (CONNECT + b"\r\n", 501),
    "CONNECT in chunks": (CONNECT + b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n", 501),
    "CONNECT with the token": (CONNECT + AUTH.encode() + b"\r\nContent-Length: 1\r\n\r\nx", 501),
    "CONNECT that offers HTTP/2": (CONNECT + b"Connection: upgrade\r\nUpgrade: h2c\r\nContent-Length: 1\r\n\r\nx", 501),
    "websocket": (get("/v2/health/live", *UPGRADE), 400),
    "websocket with a body": (post("/predict", b"{}", AUTH, *UPGRADE), 400),
    "two protocols": (get("/v2/health/live", "Connection: upgrade", "Upgrade: h2c, websocket"), 400),
    "HTTP/2 without the token": (post("/predict", b"{}", *H2C), 401),
    "no token, body expected": (b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: 16000000\r\n\r\n", 401),
    "no token, asks before it sends": (
        b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n",
        401,
    ),
    "health with a body": (post("/v2/health/live", b"x" * 100), 401),
    "token in a trailer": (f"{TRAILER}2\r\n{{}}\r\n0\r\n{AUTH}\r\n\r\n".encode(), 401),
    "two hosts": (get("/v2/health/live", "Host: there"), 400),
    "two tokens": (get("/v2", AUTH, "Authorization: Bearer another"), 401),
    "many lines of one name": (get("/v2", AUTH, *["a:b"] * 101), 431),
    "16000 lines": (get("/v2", AUTH, *["a:b"] * 16_000), 431),
    "spaces without end": (b"GET /v2 HTTP/1.1\r\nHost: x\r\nA:" + b" " * 200_000 + b"b\r\n\r\n", 431),
    "a trailer without end": (
        TRAILER.replace("\r\n\r\n", f"\r\n{AUTH}\r\n\r\n").encode() + b"0\r\nA: " + b"a" * 200_000,
        431,
    ),
    "trailers without end": (
        TRAILER.replace("\r\n\r\n", f"\r\n{AUTH}\r\n\r\n").encode() + b"0\r\n" + b"a:b\r\n" * 20_000,
        431,
    ),
    "packed and chunked": (
        f"POST /predict HTTP/1.1\r\nHost: x\r\n{AUTH}\r\nTransfer-Encoding: gzip, chunked\r\n\r\n".encode(),
        501,
    ),
    "chunks in HTTP/1.0": (
        f"POST /predict HTTP/1.0\r\n{AUTH}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".encode(),
        400,
    ),
    "length and chunks": (
        post("/predict", b"", AUTH, "Transfer-Encoding: chunked"),
        400,
    ),
    "a larger body than may be": (
        f"POST /predict HTTP/1.1\r\nHost: x\r\n{AUTH}\r\nContent-Length: 99999999\r\n\r\n".encode(),
        413,
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_and_the_same_worker_answers_on(
    worker: PredictorWorker, versions: ModelVersions, name: str, record_property: Record
) -> None:
    request, status = REFUSED[name]
    answers_rightly(worker, versions)
    with worker.connect() as connection:
        talk = Talk(connection)
        talk.send(get(LIVE))
        assert talk.read().status == 200
        with suppress(ConnectionError):  # it may be closed while the rest is sent
            talk.send(request)
        reply = talk.read()
        assert (reply.status, reply.headers["connection"]) == (status, "close")
        assert set(reply.json()) == {"error", "reason"}
        assert talk.ended()
    answers_rightly(worker, versions)
    assert worker.status()["body_bytes"] == 0
    record_property("hostile clients", {"requests": 1})


def test_what_only_looks_odd_is_answered(worker: PredictorWorker, versions: ModelVersions) -> None:
    body = b'{"instances":[{}]}'
    with worker.connect() as connection:
        talk = Talk(connection)
        tiny = chunked("/predict", *(bytes([byte]) for byte in body))
        tiny = tiny.replace(b"Host: here\r\n", f"Host: here\r\n{AUTH}\r\n".encode())
        trailers = tiny.replace(b"0\r\n\r\n", b"0\r\nContent-Encoding: br\r\nExpires: never\r\n\r\n")
        talk.send(*[get(LIVE), post("/predict", body, AUTH, *H2C), tiny, trailers] * 20)
        for _ in range(20):
            assert [talk.read().status for _ in range(4)] == [200] * 4
    answers_rightly(worker, versions)


def test_a_body_without_the_token_takes_no_memory(worker: PredictorWorker, versions: ModelVersions) -> None:
    answers_rightly(worker, versions)
    before = worker.peak_memory()
    with ExitStack() as stack:
        talks = [Talk(stack.enter_context(worker.connect())) for _ in range(10)]
        for talk in talks:
            talk.send(b"POST /predict HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
            with suppress(ConnectionError):
                for _ in range(100):
                    if select.select([talk.socket], [], [], 0)[0]:
                        break
                    talk.send(b"2\r\nab\r\n" * 9000)
            assert talk.read().status == 401
    answers_rightly(worker, versions)
    assert worker.peak_memory() - before < 8 << 20


def test_a_body_in_tiny_chunks_takes_the_memory_of_the_body(versions: ModelVersions, tmp_path: Any) -> None:
    with PredictorWorker(tmp_path, versions.path, public=False, grpc=False) as worker:
        answers_rightly(worker, versions)
        before = worker.peak_memory()
        with worker.connect() as connection:
            talk = Talk(connection)
            talk.send(b"POST /predict HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
            for _ in range(100):
                talk.send(b"2\r\nab\r\n" * 9000)
            talk.send(b"0\r\n\r\n")
            assert talk.read().status == 400
        answers_rightly(worker, versions)
        assert worker.peak_memory() - before < 16 << 20  # of a body of 1.8 MB


def test_bodies_under_way_are_bounded_together(versions: ModelVersions, tmp_path: Any) -> None:
    size = 3 << 20
    head = f"POST /predict HTTP/1.1\r\nHost: x\r\n{AUTH}\r\nContent-Length: {size}\r\n\r\n".encode()
    limits = {"body": 4 << 20, "bodies": 8 << 20}
    with (
        PredictorWorker(tmp_path, versions.path, public=True, grpc=False, limits=limits) as worker,
        ExitStack() as stack,
    ):
        first, second, third, fourth = (Talk(stack.enter_context(worker.connect())) for _ in range(4))
        for talk in (first, second):
            talk.send(head, b" " * 1000)
        eventually(lambda: worker.status()["body_bytes"] == 2 * size, what="two bodies counted")
        third.send(head)
        reply = third.read()
        assert (reply.status, reply.json()["reason"], reply.headers["retry-after"]) == (429, "overloaded", "1")
        chunk = b"%x\r\n" % (1 << 20) + b" " * (1 << 20) + b"\r\n"
        fourth.send(f"POST /predict HTTP/1.1\r\nHost: x\r\n{AUTH}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        with suppress(ConnectionError):
            fourth.send(chunk * 3)
        assert fourth.read().status == 429
        answers_rightly(worker, versions)  # small ones still find room
        first.socket.close()
        second.send(b" " * (size - 1000))
        assert second.read().status == 400
        eventually(lambda: worker.status()["body_bytes"] == 0, what="all given back")


def test_silent_connections_do_not_keep_others_out(
    versions: ModelVersions, tmp_path: Any, record_property: Record
) -> None:
    """Three hundred at a time, where sixteen may be without the token; whoever has it is let in every time."""
    limits = {"connections": 8, "unauthenticated": 16}
    with PredictorWorker(tmp_path, versions.path, public=True, limits=limits) as worker, ExitStack() as stack:
        answers_rightly(worker, versions)
        begun = [b"", b"G", b"GET /v2 HTTP/1.1\r\nHost: x\r\n", b"PRI", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0" * 9]
        for number in range(300):
            connection = stack.enter_context(worker.connect())
            connection.sendall(begun[number % len(begun)])
        answers_rightly(worker, versions)  # by the connection that it had before
        with worker.connect() as connection:
            talk = Talk(connection)
            talk.send(post("/predict", b'{"instances":[{}]}', AUTH))
            assert talk.read().status == 200
        eventually(lambda: worker.status()["connections"] <= 8 + 16, what="the rest closed")
        assert 'clickline_failures_total{reason="evicted"}' in worker.client.get("/metrics").text
        record_property("hostile clients", {"silent": 300})


@pytest.mark.parametrize(
    "begun",
    [
        b"",
        b"P",
        b"PRI",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0",  # with its settings
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0\0\0\1\1\4\0\0\0\1\x82",  # and a call that does not end
        b"GET /v2 HTTP/1.1\r\nHost: x\r\n",
        f"POST /predict HTTP/1.1\r\nHost: x\r\n{AUTH}\r\nContent-Length: 9\r\n\r\n".encode(),
        f"POST /predict HTTP/1.1\r\nHost: x\r\n{AUTH}\r\nTransfer-Encoding: chunked\r\n\r\n2".encode(),
    ],
)
def test_a_connection_that_falls_silent_is_closed(impatient: PredictorWorker, begun: bytes) -> None:
    with impatient.connect() as connection:
        connection.sendall(begun)
        with suppress(ConnectionResetError):
            while connection.recv(1 << 16):  # settings of the server, or 408; what counts is that it ends
                pass


def test_who_does_not_read_the_last_answer_is_closed(impatient: PredictorWorker) -> None:
    """However much of the answers the kernel keeps: with one of these the rest is little, and nobody waits for room."""
    with ExitStack() as stack:
        for answers in range(40):
            connection = stack.enter_context(socket.socket())
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            connection.connect(("127.0.0.1", impatient.port))
            connection.sendall(get("/openapi.json", AUTH) * answers + get("/openapi.json", AUTH, "Connection: close"))
        eventually(lambda: impatient.status()["connections"] == 1, what="only our own connection left")


@pytest.fixture(scope="module")
def impatient(versions: ModelVersions, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PredictorWorker]:
    with PredictorWorker(tmp_path_factory.mktemp("impatient"), versions.path, public=True, timing=SHORT) as made:
        yield made
