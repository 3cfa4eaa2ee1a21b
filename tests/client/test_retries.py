"""When a client asks again, how long it waits, and when it gives up."""

from __future__ import annotations

import time
from typing import Any

import pytest

from clickline import Client, PeerError, RequestError
from clickline.client import retry_budget
from clickline.client.http_requests import LostConnection
from clickline.client.retry_budget import RetryBudget
from support.doubles.predictor_double import PredictorDouble, hang_up, refuse, wait
from support.serving.both_clients import Call


def predictions(double: PredictorDouble) -> int:
    return sum(path == "/predict" for path, _, _ in double.asked)


@pytest.mark.parametrize(("status", "reason"), [(429, "overloaded"), (503, "not_ready"), (503, "draining")])
def test_not_now_is_asked_again(double: PredictorDouble, call: Call, status: int, reason: str) -> None:
    double.script.extend([refuse(status, reason, Retry_After="0"), refuse(status, reason)])
    assert call(double.url, "predict", {"I1": 3}).probabilities == [0.03]
    assert predictions(double) == 3


def test_the_time_that_the_server_names_is_waited(double: PredictorDouble, call: Call) -> None:
    double.script.append(refuse(429, "overloaded", Retry_After="1"))
    began = time.monotonic()
    call(double.url, "predict", {"I1": 3})
    assert time.monotonic() - began >= 1.0


def test_a_time_that_is_too_long_is_not_waited(double: PredictorDouble, call: Call) -> None:
    double.script.append(refuse(503, "draining", Retry_After="60"))
    with pytest.raises(RequestError, match="no: draining") as caught:
        call(double.url, "predict", {"I1": 3})
    assert caught.value.retry_after == 60.0
    assert predictions(double) == 1


def test_after_so_many_tries_the_refusal_is_the_answer(double: PredictorDouble, call: Call) -> None:
    double.script.extend([refuse(429, "overloaded")] * 5)
    with pytest.raises(RequestError) as caught:
        call(double.url, "predict", {"I1": 3}, options={"retries": 1})
    assert caught.value.reason == "overloaded"
    assert predictions(double) == 2


@pytest.mark.parametrize(
    ("status", "reason"), [(400, "malformed"), (404, "unknown_model"), (500, "internal"), (504, "timeout")]
)
def test_what_would_fail_again_is_not_asked_again(
    double: PredictorDouble, call: Call, status: int, reason: str
) -> None:
    double.script.append(refuse(status, reason))
    with pytest.raises(RequestError):
        call(double.url, "predict", {"I1": 3})
    assert predictions(double) == 1


def test_a_lost_connection_is_replaced(double: PredictorDouble, call: Call) -> None:
    double.script.extend([hang_up, hang_up])
    assert call(double.url, "predict", {"I1": 3}).probabilities == [0.03]
    assert predictions(double) == 3


def test_a_server_that_always_hangs_up_is_given_up(double: PredictorDouble, call: Call) -> None:
    double.script.extend([hang_up] * 5)
    with pytest.raises(PeerError, match=r"127\.0\.0\.1:\d+: the connection was lost"):
        call(double.url, "predict", {"I1": 3})
    assert predictions(double) == 3


def test_idle_connections_of_a_server_that_came_back_cost_no_try(double: PredictorDouble) -> None:
    with Client(double.url, retries=0) as client:
        client.predict({"I1": 3})
        double.stop()
        again = PredictorDouble(double.server_address[1])
        assert client.predict({"I1": 4}).probabilities == [0.04]
        assert again.connections == 1
        again.stop()


def test_nobody_there_says_so(call: Call) -> None:
    gone = PredictorDouble()
    gone.stop()
    with pytest.raises(PeerError, match="cannot be reached: Connection refused; is `clickline serve` running"):
        call(gone.url, "predict", {"I1": 3})


def test_the_timeout_is_for_all_tries_together(double: PredictorDouble, call: Call) -> None:
    double.script.extend([wait(4.0)] * 3)
    with pytest.raises(PeerError, match=r"no answer within 0\.2 s"):
        call(double.url, "predict", {"I1": 3}, options={"timeout": 0.2})
    assert predictions(double) <= 1  # there was no time for another


@pytest.mark.parametrize("options", [{"timeout": 0}, {"timeout": -1.0}, {"retries": -1}])
def test_settings_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="timeout must be above 0"):
        Client("http://127.0.0.1:1", **options)


def test_pauses_grow_and_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = RequestError("no", reason="overloaded", status=429)
    all_pauses = []
    for _ in range(20):
        patience = RetryBudget(timeout=1000, retries=10)
        all_pauses.append([patience.pause_after(refusal) for _ in range(10)])
    for number, pauses in enumerate(zip(*all_pauses, strict=True)):
        longest = min(retry_budget._LONGEST_PAUSE, retry_budget._FIRST_PAUSE * 2**number)
        assert all(longest / 2 <= pause <= longest for pause in pauses)
        assert len(set(pauses)) > 1


def test_the_first_loss_is_made_good_at_once() -> None:
    patience = RetryBudget(timeout=10, retries=2)
    assert patience.pause_after(LostConnection("gone")) == 0
    assert patience.pause_after(LostConnection("gone")) > 0
    with pytest.raises(LostConnection):
        patience.pause_after(LostConnection("gone"))
