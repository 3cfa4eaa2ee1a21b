"""HTTP on the wire: what is answered, in which order, and what happens to those who do not play by the rules."""

from __future__ import annotations

import gzip
import socket
import time
from contextlib import suppress
from pathlib import Path

import pytest

from clickline.serve.http.connection import AT_ONCE
from clickline.serve.http.connection_table import ConnectionTimeouts
from support.doubles.serving_doubles import BODY, PROBABILITY, VERSION, Server, serving
from support.serving.raw_http import Talk, chunked, get, post

LIVE = "/v2/health/live"
SHORT = ConnectionTimeouts(head=0.3, body=0.3, idle=0.3, writing=0.5, linger=0.5)


def test_one_connection_serves_many_requests(talk: Talk) -> None:
    for _ in range(3):
        talk.send(post("/predict", BODY))
        reply = talk.read()
        assert (reply.status, reply.headers["content-type"]) == (200, "application/json")
        assert reply.json()["predictions"] == [PROBABILITY]
        assert reply.json()["version"] == VERSION
        assert "connection" not in reply.headers
        assert reply.headers["date"].endswith("GMT")


def test_answers_come_in_the_order_of_the_requests_whoever_is_ready_first(tmp_path: Path) -> None:
    with serving(tmp_path, hold=True) as server, server.connect() as connection:
        talk = Talk(connection)
        bodies = [b'{"instances":[' + b",".join([b'{"C1":"a"}'] * rows) + b"]}" for rows in (1, 2, 3)]
        talk.send(*(post("/predict", body) for body in bodies), get(LIVE))
        server.predictor.wait_for(3)
        server.predictor.let_go(backwards=True)
        assert [len(talk.read().json()["predictions"]) for _ in bodies] == [1, 2, 3]
        assert talk.read().json() == {"live": True}


def test_a_connection_has_only_so_many_requests_at_once_and_loses_none(tmp_path: Path) -> None:
    many = 200
    with serving(tmp_path, hold=True) as server, server.connect() as connection:
        talk = Talk(connection)
        talk.send(*[post("/predict", BODY)] * many)
        server.predictor.wait_for(AT_ONCE)
        with server.connect() as other:  # answers of the same loop: it has gone round, and could have taken more
            for _ in range(50):
                other.sendall(get(LIVE))
                assert Talk(other).read().status == 200
        assert server.predictor.held == AT_ONCE
        server.predictor.let_go()
        assert [talk.read().status for _ in range(many)] == [200] * many


def test_a_thousand_requests_in_one_piece_are_answered(talk: Talk) -> None:
    talk.send(get(LIVE) * 5000)
    assert all(talk.read().status == 200 for _ in range(5000))


def test_requests_may_come_byte_by_byte(talk: Talk) -> None:
    for byte in post("/predict", BODY):
        talk.send(bytes([byte]))
    assert talk.read().status == 200


def test_bodies_may_come_in_chunks(talk: Talk) -> None:
    talk.send(chunked("/predict", BODY[:10], BODY[10:11], BODY[11:]))
    assert talk.read().json()["predictions"] == [PROBABILITY]
    talk.send(post("/predict", BODY))
    assert talk.read().status == 200


def test_compressed_bodies_are_unpacked_up_to_the_limit(tmp_path: Path) -> None:
    with serving(tmp_path, limits={"body": 10_000}) as server, server.connect() as connection:
        talk = Talk(connection)
        talk.send(post("/predict", gzip.compress(BODY), "Content-Encoding: gzip"))
        assert talk.read().json()["predictions"] == [PROBABILITY]
        talk.send(post("/predict", gzip.compress(BODY[:9]) + gzip.compress(BODY[9:]), "Content-Encoding: gzip"))
        assert talk.read().status == 200
        bomb = gzip.compress(b" " * 5_000_000)
        assert len(bomb) < 10_000
        talk.send(post("/predict", bomb, "Content-Encoding: gzip"))
        assert (talk.read().status) == 413
        talk.send(post("/predict", gzip.compress(BODY)[:-9], "Content-Encoding: gzip"))
        assert talk.read().status == 400
        talk.send(post("/predict", BODY, "Content-Encoding: gzip"))
        assert talk.read().json()["reason"] == "malformed"
        talk.send(post("/predict", BODY, "Content-Encoding: br"))
        assert talk.read().status == 415


def test_a_client_that_asks_first_is_told_to_go_on(talk: Talk) -> None:
    request = post("/predict", BODY, "Expect: 100-continue")
    talk.send(request[: -len(BODY)])
    assert talk.read().status == 100
    talk.send(BODY)
    assert talk.read().status == 200
    talk.send(post("/predict", BODY, "Expect: a miracle"))
    assert talk.read().status == 417


def test_going_on_is_said_after_the_answers_that_are_still_due(tmp_path: Path) -> None:
    with serving(tmp_path, hold=True) as server, server.connect() as connection:
        talk = Talk(connection)
        second = post("/predict", BODY, "Expect: 100-continue")
        talk.send(post("/predict", BODY), second[: -len(BODY)])
        server.predictor.wait_for(1)
        server.predictor.let_go()
        assert [talk.read().status, talk.read().status] == [200, 100]
        talk.send(BODY)
        assert talk.read().status == 200


def test_a_body_that_is_too_large_is_refused_before_it_is_sent(tmp_path: Path) -> None:
    with serving(tmp_path, limits={"body": 1000}) as server:
        with server.connect() as connection:
            talk = Talk(connection)
            talk.send(b"POST /predict HTTP/1.1\r\nHost: here\r\nContent-Length: 1001\r\nExpect: 100-continue\r\n\r\n")
            reply = talk.read()
            assert (reply.status, reply.json()["reason"], reply.headers["connection"]) == (413, "too_large", "close")
            assert "1000" in reply.json()["error"]
            assert talk.ended()
        with server.connect() as connection:
            talk = Talk(connection)
            talk.send(chunked("/predict", b"x" * 900, b"x" * 900))
            assert talk.read().status == 413
            assert talk.ended()


def test_who_sends_on_after_a_refusal_still_gets_to_read_it(tmp_path: Path) -> None:
    with serving(tmp_path, limits={"body": 1000}) as server, server.connect() as connection:
        talk = Talk(connection)
        talk.send(b"POST /predict HTTP/1.1\r\nHost: here\r\nContent-Length: 3000000\r\n\r\n")
        for _ in range(30):
            talk.send(b"x" * 100_000)
        assert talk.read().status == 413


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),  # TLS, where there is none
        (b"GET /v2 HTTP/1.1\r\n\r\n", 400),  # no host
        (b"GET /v2 HTTP/3.7\r\nHost: here\r\n\r\n", 400),
        (b"GET /v2 HTTP/2.0\r\nHost: here\r\n\r\n", 505),
        (b"POST /predict HTTP/1.1\r\nHost: here\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST /predict HTTP/1.1\r\nHost: here\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400),
        (
            b"POST /predict HTTP/1.1\r\nHost: here\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            400,
        ),
        (b"POST /predict HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (b"GET /v2 HTTP/1.1\r\nHost: here\r\nA header without a colon\r\n\r\n", 400),
        (b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: here\r\n\r\n", 414),
        (get("/v2", "Large: " + "x" * 40_000), 431),
        (get("/v2", *(f"H{n}: x" for n in range(150))), 431),
    ],
)
def test_what_is_no_request_is_refused_and_the_connection_ends(
    server: Server, request_bytes: bytes, status: int
) -> None:
    with server.connect() as connection:
        talk = Talk(connection)
        talk.send(get(LIVE), request_bytes)
        assert talk.read().status == 200
        reply = talk.read()
        assert (reply.status, reply.headers["connection"]) == (status, "close")
        assert set(reply.json()) == {"error", "reason"}
        assert talk.ended()


def test_a_header_without_an_end_is_refused(talk: Talk) -> None:
    talk.send(b"GET /v2 HTTP/1.1\r\nHost: here\r\nEndless: ", b"x" * 400_000)
    assert talk.read().status == 431


def test_many_small_requests_in_flight_are_no_large_head(talk: Talk) -> None:
    one = get(LIVE, "Filling: " + "x" * 1000)
    data = one * 500
    for start in range(0, len(data), 7001):  # cut in the middle of heads
        talk.send(data[start : start + 7001])
    assert all(talk.read().status == 200 for _ in range(500))


def test_head_is_get_without_the_body(talk: Talk) -> None:
    talk.send(get(LIVE, method="HEAD"), get(LIVE))
    head = talk.read(head=True)
    whole = talk.read()
    assert head.status == whole.status == 200
    assert head.headers["content-length"] == whole.headers["content-length"] == str(len(whole.body))


def test_options_name_the_methods(talk: Talk) -> None:
    for path, allow in ((LIVE, "GET, HEAD, OPTIONS"), ("/predict", "POST, OPTIONS"), ("*", "GET, HEAD, POST, OPTIONS")):
        talk.send(get(path, method="OPTIONS"))
        reply = talk.read()
        assert (reply.status, reply.headers["allow"], reply.body) == (204, allow, b"")


def test_older_clients_close_unless_they_ask_to_stay(server: Server) -> None:
    with server.connect() as connection:
        talk = Talk(connection)
        talk.send(get(LIVE, "Connection: keep-alive", version="1.0"))
        assert talk.read().headers["connection"] == "keep-alive"
        talk.send(get(LIVE, version="1.0"))
        assert talk.read().headers["connection"] == "close"
        assert talk.ended()


def test_a_client_that_wants_the_connection_closed_gets_it(talk: Talk) -> None:
    talk.send(get(LIVE, "Connection: close"), get(LIVE))
    assert talk.read().headers["connection"] == "close"
    assert talk.ended()


def test_an_offer_of_another_protocol_is_left_unanswered(talk: Talk) -> None:
    upgrade = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA")
    talk.send(post("/predict", BODY, *upgrade), get(LIVE, *upgrade), get(LIVE))
    assert talk.read().json()["predictions"] == [PROBABILITY]
    assert [talk.read().json(), talk.read().json()] == [{"live": True}] * 2
    for byte in post("/predict", BODY, *upgrade, "Expect: 100-continue"):
        talk.send(bytes([byte]))
    assert [talk.read().status, talk.read().status] == [100, 200]


def test_a_client_that_has_said_all_gets_its_answers(tmp_path: Path) -> None:
    with serving(tmp_path, hold=True) as server, server.connect() as connection:
        talk = Talk(connection)
        talk.send(post("/predict", BODY) * 3)
        connection.shutdown(socket.SHUT_WR)
        server.predictor.wait_for(3)
        server.predictor.let_go()
        replies = [talk.read() for _ in range(3)]
        assert [reply.status for reply in replies] == [200, 200, 200]
        assert talk.ended()


def test_clients_that_go_away_while_they_wait_harm_nobody(tmp_path: Path) -> None:
    with serving(tmp_path, hold=True) as server:
        for _ in range(5):
            with server.connect() as connection:
                connection.sendall(post("/predict", BODY) * 2)
        server.predictor.wait_for(10)
        server.predictor.let_go()
        with server.connect() as connection:
            talk = Talk(connection)
            talk.send(post("/predict", BODY))
            assert talk.read().status == 200


@pytest.mark.parametrize(
    "begun",
    [b"GET /v2 HTTP/1.1\r\nHost: he", b"POST /predict HTTP/1.1\r\nHost: here\r\nContent-Length: 10\r\n\r\n123"],
    ids=["head", "body"],
)
def test_who_is_too_slow_is_told_and_closed(tmp_path: Path, begun: bytes) -> None:
    with serving(tmp_path, timing=SHORT) as server, server.connect() as connection:
        talk = Talk(connection)
        talk.send(begun)
        reply = talk.read()
        assert (reply.status, reply.json()["reason"]) == (408, "timeout")
        assert talk.ended()


def test_a_head_that_trickles_has_the_same_time_as_any_other(tmp_path: Path) -> None:
    with serving(tmp_path, timing=SHORT) as server, server.connect() as connection:
        talk = Talk(connection)
        talk.send(b"GET /v2 HTTP/1.1\r\n")
        started = time.monotonic()
        connection.settimeout(0.05)
        while True:
            try:
                talk.send(b"X: y\r\n")
                found = connection.recv(1000)
            except TimeoutError:
                assert time.monotonic() - started < 60
                continue
            assert found.startswith(b"HTTP/1.1 408 ")
            break


def test_a_connection_that_says_nothing_is_closed(tmp_path: Path) -> None:
    with serving(tmp_path, timing=SHORT) as server:
        with server.connect() as connection:
            assert Talk(connection).ended()
        with server.connect() as connection:
            talk = Talk(connection)
            talk.send(get(LIVE))
            assert talk.read().status == 200
            assert talk.ended()


def test_who_does_not_read_its_answers_is_not_read_from_and_given_up(tmp_path: Path) -> None:
    with serving(tmp_path, timing=SHORT) as server, server.connect() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(0.2)
        request, sent = get("/openapi.json") * 50, 0
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            while True:
                with suppress(TimeoutError):
                    sent += connection.send(request)
                assert sent < 100 << 20
        # Far less was taken than could have been sent: what kernels keep, and one reading.
        assert sent < 20 << 20


def test_connections_above_the_limit_are_told_so(tmp_path: Path) -> None:
    with serving(tmp_path, limits={"connections": 3}, timing=ConnectionTimeouts(linger=0.5)) as server:
        talks = [Talk(server.connect()) for _ in range(3)]
        for talk in talks:
            talk.send(get(LIVE))
            assert talk.read().status == 200
        with server.connect() as connection:
            refused = Talk(connection).read()
            assert (refused.status, refused.headers["retry-after"], refused.json()["reason"]) == (
                429,
                "1",
                "overloaded",
            )
        for talk in talks:
            talk.send(post("/predict", BODY))
            assert talk.read().status == 200
            talk.socket.close()
        deadline = time.monotonic() + 20
        while True:  # there is room again, as soon as they are gone
            with server.connect() as connection:
                talk = Talk(connection)
                talk.send(get(LIVE))
                if talk.read().status == 200:
                    break
            assert time.monotonic() < deadline
