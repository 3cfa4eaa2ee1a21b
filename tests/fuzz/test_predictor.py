"""Requests to a predictor, garbled, over sockets: to a worker with a real model, which asks for a token. Each ends with
an answer or a closed connection, and the same worker then answers another client, rightly."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.fuzz.budget import TALLIES, budgeted, judged
from support.fuzz.mutations import corpus, mutated
from support.serving.predictor_worker import PredictorWorker
from support.versions.model_versions import TOLERANCE, ModelVersions

NAME = "sockets-predictor"
ROWS = 3
several = st.lists(mutated("predictor"), min_size=1, max_size=3).map(b"".join)


class Harmed:
    """The worker, and what it must answer whatever happened before."""

    def __init__(self, worker: PredictorWorker, versions: ModelVersions) -> None:
        self.worker, self._instances, self._expected = worker, versions.instances[:ROWS], versions.expected(1)[:ROWS]

    def answers(self, data: bytes) -> bool:
        """Whether one of the answers is a success."""
        answer = b""
        with self.worker.connect() as connection:
            with suppress(ConnectionError):
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
            with suppress(ConnectionError):
                while found := connection.recv(1 << 16):
                    answer += found
        http2 = data.startswith(b"PRI")
        assert http2 or not answer or answer.startswith(b"HTTP/1.1 "), answer[:200]
        assert b"HTTP/1.1 500" not in answer, answer[:500]
        said = self.worker.predict(self._instances)
        np.testing.assert_allclose(said, self._expected, rtol=0, atol=TOLERANCE)
        return b"HTTP/1.1 2" in answer


@pytest.fixture(scope="module")
def harmed(trained_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harmed]:
    versions = ModelVersions(tmp_path_factory.mktemp("published") / "store", trained_model)
    directory = tmp_path_factory.mktemp("harmed")
    with PredictorWorker(directory, versions.path, public=True, limits={"timeout": 30.0}) as worker:
        yield Harmed(worker, versions)
        assert worker.status()["body_bytes"] == 0
        log = worker.log.read_text()
        assert "failed" not in log
        assert log.isascii()


@pytest.mark.parametrize("path", corpus("predictor"), ids=lambda path: path.name)
def test_kept_requests(harmed: Harmed, path: Path) -> None:
    assert judged(NAME, harmed.answers, path.read_bytes()) == path.name.startswith("good")


@budgeted(default=150)
@given(several)
def test_garbled_requests_to_a_predictor(harmed: Harmed, data: bytes) -> None:
    judged(NAME, harmed.answers, data)


def test_how_many_there_were(harmed: Harmed, record_property: Callable[[str, object], None]) -> None:
    tally = TALLIES[NAME]
    record_property("hostile clients", {"requests": tally.accepted + tally.refused})
    assert harmed.worker.process.poll() is None
