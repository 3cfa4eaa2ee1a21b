"""A real predictor, asked by clients that nobody here wrote (tritonclient) and by our own: one answer, whoever asks."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as over_grpc
import tritonclient.http as over_http

from clickline import Client
from clickline.client.request_rows import read_file
from clickline.config import Job
from support.processes import small_settings, start

ROWS = 16
NAMES = [*(f"I{i}" for i in range(1, 14)), *(f"C{i}" for i in range(1, 27))]


@pytest.fixture(scope="session")
def store(criteo: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    from clickline.publish.publisher import Settings, publish
    from clickline.train.session import train_job
    from clickline.versions.store import open_store

    directory = tmp_path_factory.mktemp("asked")
    result = train_job(Job.model_validate(small_settings(criteo, directory)))
    publish(result.checkpoint, open_store(directory / "store"), Settings(kind="base", sample_rows=64))
    return directory / "store"


@pytest.fixture(scope="session")
def address(store: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """HOST:PORT of `clickline serve`."""
    ready = tmp_path_factory.mktemp("ready") / "ready.json"
    process = start("serve", store, "--listen", "127.0.0.1:0", "--name", "ctr", "--ready-file", ready)
    try:
        while not ready.exists():
            assert process.poll() is None, process.communicate()[1]
            time.sleep(0.02)
        yield json.loads(ready.read_text(encoding="utf-8"))["http"].removeprefix("http://")
    finally:
        process.terminate()
        process.communicate(timeout=30)


@pytest.fixture(scope="session")
def rows(criteo: dict[str, str]) -> list[dict[str, str]]:
    found = []
    for row in read_file(criteo["test"], standard_input=None):  # type: ignore[arg-type]
        found.append(row)
        if len(found) == ROWS:
            return found
    raise AssertionError("the log is too short")


@pytest.fixture(scope="session")
def expected(address: str, rows: list[dict[str, str]]) -> list[float]:
    """By the plain form."""
    with Client(f"http://{address}") as client:
        found = client.predict(rows).probabilities
    assert len({round(float(p), 6) for p in found}) > ROWS // 2  # or equal answers would say nothing
    return found


def texts(rows: list[dict[str, str]], name: str) -> np.ndarray:
    return np.array([row.get(name, "").encode() for row in rows], object)


@pytest.mark.heavy
@pytest.mark.parametrize("binary", [True, False], ids=["binary", "json"])
def test_tritonclient_infers_over_http(
    address: str, rows: list[dict[str, str]], expected: list[float], binary: bool
) -> None:
    with over_http.InferenceServerClient(address) as client:
        assert client.is_server_live()
        assert client.is_server_ready()
        assert client.is_model_ready("ctr")
        about = client.get_model_metadata("ctr")
        assert {one["name"] for one in about["inputs"]} == set(NAMES)
        inputs = []
        for name in NAMES:
            one = over_http.InferInput(name, [len(rows)], "BYTES")
            one.set_data_from_numpy(texts(rows, name), binary_data=binary)
            inputs.append(one)
        wanted = [over_http.InferRequestedOutput("probability", binary_data=binary)]
        for version in ("", about["versions"][-1]):
            result = client.infer("ctr", inputs, outputs=wanted, request_id="r1", model_version=version)
            assert result.as_numpy("probability")[:, 0] == pytest.approx(expected, abs=1e-6)
            assert result.get_response()["id"] == "r1"
            assert result.get_response()["model_version"] == about["versions"][-1]


@pytest.mark.heavy
def test_tritonclient_infers_over_grpc_on_the_same_port(
    address: str, rows: list[dict[str, str]], expected: list[float]
) -> None:
    with over_grpc.InferenceServerClient(address) as client:
        assert client.is_server_live()
        assert client.is_server_ready()
        assert client.is_model_ready("ctr")
        assert {one.name for one in client.get_model_metadata("ctr").inputs} == set(NAMES)
        inputs = []
        for name in NAMES:
            one = over_grpc.InferInput(name, [len(rows), 1], "BYTES")
            one.set_data_from_numpy(texts(rows, name)[:, None])
            inputs.append(one)
        result = client.infer("ctr", inputs, request_id="r2")
        assert result.as_numpy("probability")[:, 0] == pytest.approx(expected, abs=1e-6)
        assert result.get_response().id == "r2"


@pytest.mark.heavy
def test_every_new_connection_is_answered_over_grpc(address: str) -> None:
    """Who speaks first differs from one to the next, and nothing that either says may be lost."""
    for _ in range(20):
        with over_grpc.InferenceServerClient(address, channel_args=[("grpc.use_local_subchannel_pool", 1)]) as client:
            assert client.is_server_live(client_timeout=10)


@pytest.mark.heavy
def test_our_own_ways_agree(address: str, rows: list[dict[str, str]], expected: list[float]) -> None:
    with Client(f"http://{address}") as client:
        version = client.predict(rows[0]).version
        pinned = client.predict(rows, version=version)
    assert pinned.version == version
    assert pinned.probabilities == pytest.approx(expected, abs=1e-6)


@pytest.mark.heavy
@pytest.mark.parametrize("protocol", ["json", "v2", "binary", "grpc"])
def test_load_is_answered_in_every_form(address: str, criteo: dict[str, str], protocol: str) -> None:
    process = start(
        *("bench", "serve", f"http://{address}", "--requests", "50", "--connections", "2"),
        *("--protocol", protocol, "--file", criteo["test"], "--json"),
    )
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, out + err
    figures = json.loads(out)
    assert (figures["requests"], figures["failed"]) == (50, 0)


@pytest.mark.heavy
def test_the_log_is_predicted_from_the_command_line(
    address: str, criteo: dict[str, str], rows: list[dict[str, str]], expected: list[float]
) -> None:
    process = start("predict", "--url", f"http://{address}", "--file", criteo["test"], "--json")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, out + err
    found = [one["probability"] for one in json.loads(out)["predictions"]]
    assert len(found) == Path(criteo["test"]).read_bytes().count(b"\n")
    assert found[: len(rows)] == pytest.approx(expected, abs=1e-6)
