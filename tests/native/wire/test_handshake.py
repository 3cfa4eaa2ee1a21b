"""Who does not belong to the job is turned away, and both sides say why."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from clickline._native import Lane, WireServer, xxh64
from clickline.errors import PeerError
from support.doubles.wire_peers import (
    AUTH,
    BUSY,
    CALL,
    ERROR,
    HELLO,
    REFUSE,
    REPLY,
    TOKEN,
    WELCOME,
    authenticate,
    call_payload,
    dial,
    ended,
    fake_server,
    frame,
    header,
    receive,
    text,
)
from support.eventually import eventually

Serve = Callable[..., WireServer]
Connect = Callable[..., Lane]


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"token": b"another"}, "wrong token"),
        ({"job": "views"}, "wrong job: the client is of 'views', the server of 'clicks'"),
    ],
)
def test_refused_with_a_reason_on_both_sides(
    serve: Serve, connect: Connect, capfd: pytest.CaptureFixture[str], settings: dict[str, object], reason: str
) -> None:
    server = serve(name="pserver.0")
    with pytest.raises(PeerError) as caught:
        connect(server, **settings).call("x", [[]])
    assert str(caught.value).startswith(f"pserver.0 at {server.address}: refused: {reason}")
    eventually(lambda: server.counters()["connections"] == 0)
    assert f"clickline: pserver.0 at {server.address} turned away a client: {reason}" in capfd.readouterr().err
    assert server.counters()["refused"] == 1
    assert server.counters()["requests"] == 0


def test_a_client_of_another_version_is_refused(serve: Serve, capfd: pytest.CaptureFixture[str]) -> None:
    server = serve()
    reason = "the client speaks version 9 of the protocol, the server version 1"
    with dial(server.address) as peer:
        assert authenticate(peer, token=TOKEN, job="clicks", version=9) == (REFUSE, reason.encode())
        assert ended(peer)
    eventually(lambda: reason in capfd.readouterr().err)


def test_a_server_of_another_version_is_refused(connect: Connect) -> None:
    hello = struct.pack("<HH", 7, 8) + text("clicks") + text("pserver.0") + bytes(32)
    with (
        fake_server(frame(HELLO, hello)) as address,
        pytest.raises(PeerError, match="the server speaks versions 7 to 8 of the protocol, the client version 1"),
    ):
        connect(address).call("x", [[]])


def test_the_reason_reaches_a_server_of_another_version(connect: Connect) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        lane = connect(f"tcp:127.0.0.1:{listening.getsockname()[1]}")

        def call() -> None:
            with pytest.raises(PeerError):
                lane.call("x", [[]])

        thread = threading.Thread(target=call)
        thread.start()
        peer, _ = listening.accept()
        with peer:
            peer.sendall(frame(HELLO, struct.pack("<HH", 2, 2) + text("clicks") + text("p") + bytes(32)))
            kind, _, reason = receive(peer)
            assert (kind, b"versions 2 to 2" in reason) == (REFUSE, True)
        thread.join()


def test_a_server_that_does_not_know_the_token_is_not_believed(connect: Connect) -> None:
    hello = struct.pack("<HH", 1, 1) + text("clicks") + text("pserver.0") + bytes(32)
    welcome = frame(WELCOME, struct.pack("<Q", 1 << 30) + bytes(32))
    with (
        fake_server(frame(HELLO, hello) + welcome) as address,
        pytest.raises(PeerError, match="the server does not know the token"),
    ):
        connect(address).call("x", [[]])


def test_the_page_describes_the_bytes(serve: Serve) -> None:
    """A client written from the documentation is understood."""
    with dial(serve().address) as peer:
        kind, welcome = authenticate(peer, token=TOKEN, job="clicks")
        assert (kind, len(welcome), struct.unpack_from("<Q", welcome)) == (WELCOME, 40, (1 << 30,))
        peer.sendall(frame(CALL, call_payload("say", b"hello"), number=5))
        assert receive(peer) == (REPLY, 5, b"say hello")


def test_a_proof_is_good_for_one_connection(serve: Serve) -> None:
    server = serve()
    with dial(server.address) as peer, dial(server.address) as thief:
        receive(thief)
        sent: list[bytes] = []

        class Recording:
            def __getattr__(self, name: str) -> object:
                return getattr(peer, name)

            def sendall(self, data: bytes) -> None:
                sent.append(data)
                peer.sendall(data)

        assert authenticate(Recording(), token=TOKEN, job="clicks")[0] == WELCOME  # type: ignore[arg-type]
        thief.sendall(sent[0])
        kind, _, reason = receive(thief)
        assert (kind, b"wrong token" in reason) == (REFUSE, True)


def test_a_client_without_room_tries_again_until_there_is(serve: Serve, connect: Connect) -> None:
    server = serve(max_connections=2)
    lanes = [connect(server, client=client) for client in range(3)]
    for lane in lanes[:2]:
        lane.call("x", [[]])
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(lanes[2].call, "x", [[b"1"]])
        eventually(lambda: server.counters()["refused"] >= 2)
        assert not waiting.done()
        lanes[0].close()
        assert waiting.result(10) == [b"x 1"]


def test_a_client_without_room_and_patience_says_why(serve: Serve, connect: Connect) -> None:
    server = serve(max_connections=1, name="pserver.0")
    connect(server).call("x", [[]])
    with pytest.raises(PeerError, match=r"pserver\.0 at .*no room: the server has 1 connections, its limit"):
        connect(server, client=8, retry_for=0.0).call("x", [[]])


def test_want_of_room_has_a_kind_of_frame_of_its_own(serve: Serve, connect: Connect) -> None:
    server = serve(max_connections=1)
    connect(server).call("x", [[]])
    with dial(server.address) as peer:
        assert authenticate(peer, token=TOKEN, job="clicks") == (BUSY, b"the server has 1 connections, its limit")
        assert ended(peer)


@pytest.mark.parametrize("said", [b"", frame(AUTH, b"\1")[:20]])
def test_strangers_do_not_crowd_out_those_who_know_the_token(serve: Serve, connect: Connect, said: bytes) -> None:
    server = serve("tcp:127.0.0.1:0", max_connections=4, max_unauthenticated=8)
    strangers = []
    try:
        for number in range(200):
            strangers.append(dial(server.address))
            strangers[-1].sendall(said)
            if number % 50 == 49:
                connect(server, client=number, retry_for=20.0).call("x", [[]])
        eventually(lambda: server.counters()["crowded_out"] >= 150)
        assert server.counters()["connections"] <= 4 + 2 * 8
        assert ended_after_hello(strangers[0])
    finally:
        for each in strangers:
            each.close()


def ended_after_hello(peer: socket.socket) -> bool:
    with suppress(ConnectionResetError):
        while peer.recv(1000):
            pass
    return True


def test_what_strangers_say_cannot_forge_a_line_of_the_log(serve: Serve, capfd: pytest.CaptureFixture[str]) -> None:
    server = serve()
    job = "x\n2026-01-01T00:00:00.000 INFO pserver.0 checkpoint verified \x1b[2J\u009b1m"
    with dial(server.address) as peer:
        kind, reason = authenticate(peer, token=TOKEN, job=job)
        assert (kind, b"wrong job" in reason) == (REFUSE, True)
        assert ended(peer)
    eventually(lambda: server.counters()["connections"] == 0)
    lines = capfd.readouterr().err.splitlines()
    assert [line.startswith("clickline: ") for line in lines] == [True]
    assert "wrong job: the client is of 'x?2026" in lines[0]
    assert lines[0].isprintable()


@pytest.mark.parametrize("length", [4097, 1 << 40, (1 << 64) - 1])
def test_a_stranger_cannot_make_the_server_allocate(serve: Serve, length: int) -> None:
    server = serve()
    with dial(server.address) as peer:
        receive(peer)
        peer.sendall(header(AUTH, length=length))
        assert ended(peer)
    eventually(lambda: server.counters()["refused"] == 1)


def test_an_oversize_request_is_refused_before_it_is_read(serve: Serve) -> None:
    server = serve(max_frame=10_000)
    with dial(server.address) as peer:
        authenticate(peer, token=TOKEN, job="clicks")
        peer.sendall(header(CALL, length=10_001, number=3))
        assert receive(peer)[::2] == (ERROR, b"a frame of 10001 bytes, but at most 10000 are taken")
        assert ended(peer)


def test_limits_are_told_and_kept_on_both_sides(serve: Serve, connect: Connect) -> None:
    server = serve(max_frame=10_000)
    lane = connect(server)
    with pytest.raises(PeerError, match="a request of 20016 bytes, but it takes at most 10000"):
        lane.call("x", [[bytes(20_000 - 8)]])
    with pytest.raises(PeerError, match="a frame of 1002 bytes, but at most 1000 are taken"):
        connect(server, max_frame=1000).call("x", [[bytes(1000)]])
    with pytest.raises(PeerError, match="a reply of 20000 bytes, but frames have at most 10000"):
        connect(serve(max_frame=10_000, handler=lambda *_: bytes(20_000))).call("x", [[]])
    assert lane.call("x", [[b"1"]]) == [b"x 1"]


@pytest.mark.parametrize(
    "bytes_",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" + bytes(100),
        header(AUTH, length=10)[:-1] + b"\0" + bytes(10),
        header(AUTH, length=10, hash_=1) + bytes(10),
        frame(AUTH, b"\1"),
        frame(AUTH, struct.pack("<HH", 1, 65535)),
        frame(CALL, call_payload("x", b"")),
        frame(77, b""),
        header(AUTH, length=4, hash_=xxh64(bytes(4)), version=3) + bytes(4),
    ],
)
def test_nonsense_closes_the_connection_and_nothing_else(serve: Serve, connect: Connect, bytes_: bytes) -> None:
    server = serve()
    with dial(server.address) as peer:
        receive(peer)
        peer.sendall(bytes_)
        assert ended(peer)
    eventually(lambda: server.counters()["garbled"] == 1)
    assert connect(server).call("x", [[b"1"]]) == [b"x 1"]
