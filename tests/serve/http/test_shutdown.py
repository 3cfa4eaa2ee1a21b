"""The end of a worker: what was asked is answered, what was not asked is not waited for."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from support.doubles.serving_doubles import BODY, Server, serving
from support.serving.raw_http import Talk, get, post


def wait_until_closed(server: Server) -> None:
    """Until no connection is accepted any more. One that the kernel completes just before the close is reset."""
    give_up = time.monotonic() + 20
    while True:
        try:
            server.connect().close()
        except ConnectionRefusedError:
            return
        except ConnectionResetError:
            pass
        assert time.monotonic() < give_up


def test_requests_under_way_are_finished_and_the_rest_is_closed(tmp_path: Path) -> None:
    with serving(tmp_path, hold=True) as server:
        asking, idle, half = (Talk(server.connect()) for _ in range(3))
        asking.send(post("/predict", BODY) * 2)
        server.predictor.wait_for(2)
        half.send(get("/v2/health/live"))
        assert half.read().status == 200
        half.send(b"GET /v2/health/ready HTTP/1.1\r\n")
        idle.send(get("/v2/health/live"))
        assert "connection" not in idle.read().headers
        server.worker.stop()
        wait_until_closed(server)
        assert idle.ended()
        half.send(b"Host: here\r\n\r\n")
        reply = half.read()
        assert (reply.status, reply.json()["reason"], reply.headers["connection"]) == (503, "draining", "close")
        assert half.ended()
        assert server.thread.is_alive()
        server.predictor.let_go()
        replies = [asking.read(), asking.read()]
        assert [(one.status, one.headers.get("connection")) for one in replies] == [(200, None), (200, "close")]
        assert asking.ended()
        server.thread.join(20)
        assert not server.thread.is_alive()
        for talk in (asking, idle, half):
            talk.socket.close()


def test_connections_that_came_before_the_end_are_served(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        talks = [Talk(server.connect()) for _ in range(50)]
        for talk in talks:
            talk.send(post("/predict", BODY))
        server.worker.stop()
        assert [talk.read().status for talk in talks] == [200] * 50
        for talk in talks:
            talk.socket.close()


@pytest.mark.parametrize("twice", [False, True])
def test_it_ends_when_its_time_is_over_or_at_once_if_told_twice(tmp_path: Path, twice: bool) -> None:
    with serving(tmp_path, hold=True, grace=60.0 if twice else 0.3) as server:
        with server.connect() as connection:
            connection.sendall(post("/predict", BODY))
            server.predictor.wait_for(1)
            server.worker.stop()
            if twice:
                server.worker.stop()
            assert Talk(connection).ended()
        server.thread.join(20)
        assert not server.thread.is_alive()
