"""Answers that a cube client must not take: of another version, to another request, about other keys, garbled."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from clickline._native import CubeClient, CubeServer, Dictionary, Layers
from support.cubes.native_servers import floats, write_table
from support.doubles.scripted_cube import ROW, Request, scripted_cube

Serve = Callable[..., CubeServer]
Connect = Callable[..., CubeClient]
KEYS = np.array([1, 2], np.uint64)


def garbled(request: Request) -> bytes:
    """The frame as it should be, with one bit of the last row changed on the way."""
    sent = request.reply()
    return sent[:-1] + bytes([sent[-1] ^ 1])


def test_a_right_answer_is_taken(connect: Connect) -> None:
    with scripted_cube(Request.reply) as address:
        got = connect([[address]]).get("user", KEYS, version=1)
        assert (got.code, got.version, got.status.tolist()) == (0, 1, [0, 0])
        assert got.values.tobytes() == ROW * 2


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (lambda request: request.reply(version=2), "an answer from version 2 instead of 1"),
        (lambda request: request.reply(number=request.number + 1), "that was not an answer to this request"),
        (lambda request: request.reply(count=3), "an answer about 3 keys instead of 2"),
        (garbled, "a frame's payload is garbled"),
    ],
    ids=["of another version", "to another request", "about other keys", "garbled"],
)
def test_a_wrong_answer_is_not_taken(connect: Connect, answer: Callable[[Request], bytes], reason: str) -> None:
    with scripted_cube(answer) as address:
        client = connect([[address]], retries=1)
        got = client.get("user", KEYS, version=1)
        assert (got.code, got.status.tolist()) == (-3, [3, 3])
        assert not got.values.any()
        assert reason in got.errors[0]
        assert client.counts()["failures"] == 2


def test_a_connection_that_owes_an_answer_is_not_used_for_the_next_request(
    tmp_path: Path, serve: Serve, connect: Connect
) -> None:
    honest = serve()
    honest.load(1, {"user": Layers([Dictionary(str(write_table(tmp_path / "rows", 1, 50)))])})
    honest.switch(1, 1)
    asked, may_answer = threading.Event(), threading.Event()
    followed: list[bool] = []

    def late(request: Request) -> bytes:
        asked.set()
        followed.append(request.followed(may_answer))
        return request.reply()

    with scripted_cube(late) as address:
        client = connect([[address, honest.address]], hedge=0.005, timeout=30.0)
        try:
            while not asked.is_set():  # replicas take turns
                assert client.get("user", KEYS, version=1).code == 0
            for _ in range(20):
                np.testing.assert_array_equal(floats(client.get("user", KEYS, version=1).values)[:, 1], KEYS)
        finally:
            may_answer.set()
        assert client.counts()["failures"] == 0
    assert followed
    assert not any(followed)
