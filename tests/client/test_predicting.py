"""Client and AsyncClient: what they ask, and what they make of the answer. Both must do the same."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from typing import Any

import numpy as np
import pytest

import clickline
from clickline import AsyncClient, Client, PeerError, RequestError
from support.doubles.predictor_double import PredictorDouble, answer_bytes, wait
from support.serving.both_clients import Call


def test_rows_are_predicted_with_their_version(double: PredictorDouble, call: Call) -> None:
    said = call(double.url, "predict", [{"I1": 3, "C1": "68fd1e64"}, {"I1": 25}, {"C1": "x"}])
    assert said == clickline.Prediction([0.03, 0.25, 0.0], version=7, model="ctr", variant="", missing=1)


def test_one_row_stands_for_a_list_of_one(double: PredictorDouble, call: Call) -> None:
    assert call(double.url, "predict", {"I1": 3}).probabilities == [0.03]


def test_values_arrive_as_they_were_given(double: PredictorDouble, call: Call) -> None:
    row = {"I1": np.int64(3), "C1": 'ä"\\', "tags": ["a", None, np.str_("b")]}
    call(double.url, "predict", [row])
    assert json.loads(double.asked[-1][2]) == {"instances": [{"I1": 3, "C1": 'ä"\\', "tags": ["a", None, "b"]}]}


def test_a_key_is_sent_and_the_variant_comes_back(double: PredictorDouble, call: Call) -> None:
    assert call(double.url, "predict", {"I1": 1}, key="user 5").variant == "a"
    assert json.loads(double.asked[-1][2])["key"] == "user 5"


def test_a_model_is_named_in_the_path(double: PredictorDouble, call: Call) -> None:
    call(double.url, "predict", {"I1": 1}, model="a/b")
    assert double.asked[-1][0] == "/models/a%2Fb/predict"


def test_a_version_by_number_is_asked_for_by_the_open_protocol(double: PredictorDouble, call: Call) -> None:
    said = call(double.url, "predict", [{"I1": 3}, {"C1": "a"}], version=7)
    assert (said.probabilities, said.version, said.model) == ([0.03, 0.0], 7, "ctr")
    path, _, body = double.asked[-1]
    assert path == "/v2/models/ctr/versions/7/infer"
    assert json.loads(body)["inputs"][0] == {"name": "I1", "datatype": "INT64", "shape": [2], "data": [3, None]}


def test_what_a_server_says_of_itself(double: PredictorDouble, call: Call) -> None:
    assert call(double.url, "ready") is True
    assert call(double.url, "status")["models"] == {"ctr": {"version": 7}}
    assert [one["name"] for one in call(double.url, "models")["ctr"]["inputs"]] == ["I1", "C1", "tags"]
    double.ready = False
    assert call(double.url, "ready") is False


def test_nobody_there_is_not_ready(call: Call) -> None:
    free = PredictorDouble()
    free.stop()
    assert call(free.url, "ready") is False


def test_who_does_not_answer_is_not_ready(call: Call) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert call(url, "ready", options={"timeout": 0.1}) is False


def test_a_refusal_keeps_the_servers_words_and_reason(double: PredictorDouble, call: Call) -> None:
    with pytest.raises(RequestError, match="'C9' is no feature") as caught:
        call(double.url, "predict", {"C9": 1})
    assert (caught.value.reason, caught.value.status) == ("unknown_feature", 400)


@pytest.mark.parametrize("rows", ["I1=3", [["I1", 3]], 5, {"I1": object()}])
def test_what_is_no_row_is_refused_before_it_is_sent(double: PredictorDouble, call: Call, rows: Any) -> None:
    with pytest.raises(TypeError, match=r"rows must be a dict|type object cannot be sent"):
        call(double.url, "predict", rows)
    assert not double.asked


def test_the_token_is_shown_and_is_in_no_repr(
    double: PredictorDouble, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    call(double.url, "predict", {"I1": 1}, options={"token": "given-token"})
    assert double.asked[-1][1]["Authorization"] == "Bearer given-token"
    monkeypatch.setenv("CLICKLINE_TOKEN", "of-the-environment")
    call(double.url, "predict", {"I1": 1})
    assert double.asked[-1][1]["Authorization"] == "Bearer of-the-environment"
    assert "token" not in repr(Client(double.url, token="given-token"))  # noqa: S106


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("ftp://a", "scheme is 'ftp'"),
        ("http://a:b", "port is not a number"),
        ("http://", "is not the address"),
        ("http://a?b", "is not the address"),
    ],
)
def test_a_wrong_address_says_what_to_write(url: str, message: str) -> None:
    with pytest.raises(PeerError, match=f"{message}.*http://127.0.0.1:8010"):
        Client(url)


def test_several_labels_come_by_name(double: PredictorDouble, call: Call) -> None:
    body = b'{"predictions":[{"click":0.5,"buy":0.25}],"version":9,"model":"ctr"}'
    double.script.append(answer_bytes(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body))
    assert call(double.url, "predict", {"I1": 1}).probabilities == [{"click": 0.5, "buy": 0.25}]


@pytest.mark.parametrize(
    "head",
    [b"Transfer-Encoding: chunked\r\n\r\n", b"Connection: close\r\n\r\n"],
    ids=["chunked", "until closed"],
)
def test_answers_are_read_in_every_framing(double: PredictorDouble, call: Call, head: bytes) -> None:
    body = b'{"predictions":[0.5],"version":9,"model":"ctr"}'
    if b"chunked" in head:
        body = b"5\r\n" + body[:5] + b"\r\n" + f"{len(body) - 5:x}\r\n".encode() + body[5:] + b"\r\n0\r\n\r\n"
    double.script.append(answer_bytes(b"HTTP/1.1 200 OK\r\n" + head + body))
    assert call(double.url, "predict", {"I1": 1}).version == 9


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"SSH-2.0-OpenSSH_9.6\r\n", "does not speak HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]", "not a prediction"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "not a prediction"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n", "too large"),
    ],
    ids=["no http", "other json", "no json", "endless"],
)
def test_what_is_no_predictor_is_said_to_be_none(double: PredictorDouble, call: Call, raw: bytes, message: str) -> None:
    double.script.append(answer_bytes(raw))
    with pytest.raises(PeerError, match=message):
        call(double.url, "predict", {"I1": 1})


def test_a_page_of_a_gateway_is_shown_in_part(double: PredictorDouble, call: Call) -> None:
    double.script.append(answer_bytes(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 4\r\n\r\n<h1>"))
    with pytest.raises(RequestError, match="HTTP status 502: <h1>") as caught:
        call(double.url, "predict", {"I1": 1})
    assert caught.value.reason == "http_502"


def test_connections_are_used_again(double: PredictorDouble) -> None:
    with Client(double.url) as client:
        for number in range(10):
            assert client.predict({"I1": number}).probabilities == [number / 100]
    assert double.connections == 1

    async def run() -> None:
        async with AsyncClient(double.url) as client:
            for _ in range(10):
                await client.predict({"I1": 1})

    asyncio.run(run())
    assert double.connections == 2


def test_threads_share_a_client_and_each_gets_its_own_answer(double: PredictorDouble) -> None:
    wrong: list[tuple[int, Any]] = []
    with Client(double.url) as client:

        def ask(number: int) -> None:
            for turn in range(20):
                value = number * 100 + turn
                found = client.predict({"I1": value}).probabilities
                if found != [value / 100]:
                    wrong.append((value, found))

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong
    assert double.connections <= 8


def test_tasks_share_an_async_client(double: PredictorDouble) -> None:
    async def run() -> list[Any]:
        async with AsyncClient(double.url) as client:
            answers = await asyncio.gather(*(client.predict({"I1": number}) for number in range(50)))
            return [one.probabilities[0] for one in answers]

    assert asyncio.run(run()) == [number / 100 for number in range(50)]


def test_a_cancelled_task_spoils_no_connection(double: PredictorDouble) -> None:
    double.script.append(wait(0.3))

    async def run() -> list[Any]:
        async with AsyncClient(double.url) as client:
            await client.status()
            slow = asyncio.create_task(client.predict({"I1": 99}))
            while len(double.asked) < 2:
                await asyncio.sleep(0.001)
            slow.cancel()
            await asyncio.gather(slow, return_exceptions=True)
            return [(await client.predict({"I1": number})).probabilities for number in (1, 2)]

    assert asyncio.run(run()) == [[0.01], [0.02]]
