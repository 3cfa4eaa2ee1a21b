"""Load: both loops, what they count, and that an open loop does not hide a server that stalls."""

from __future__ import annotations

import threading
from itertools import islice
from typing import Any

import numpy as np
import pytest

from clickline import PeerError
from clickline.client.http_requests import address_of
from clickline.client.load.http_load import LoadPlan
from clickline.client.load.load_test import measure
from clickline.client.made_up_rows import sample_rows
from support.doubles.predictor_double import METADATA, PredictorDouble, answer_bytes, hang_up, refuse, wait
from support.eventually import eventually

ROWS = sample_rows(METADATA, 50)


def test_made_rows_are_the_same_for_a_seed_and_fit_the_inputs() -> None:
    assert sample_rows(METADATA, 5, seed=1) == sample_rows(METADATA, 5, seed=1) != sample_rows(METADATA, 5, seed=2)
    row = ROWS[0]
    assert isinstance(row["I1"], int)
    assert row["C1"].isdigit()
    assert len(row["tags"]) == 2


@pytest.mark.parametrize("protocol", ["json", "v2", "binary"])
def test_a_closed_loop_asks_as_often_as_told(double: PredictorDouble, protocol: str) -> None:
    load = LoadPlan(connections=3, requests=60)
    figures, tally = measure(address_of(double.url), ROWS, load, protocol=protocol, per_request=4, model="ctr")
    assert (figures["requests"], figures["failed"], figures["loop"]) == (60, 0, "closed")
    assert len(double.asked) == 60 + 3  # each connection has asked once before
    assert double.connections == 3
    assert figures["versions"] == {"7": 60}
    assert tally.rows == 240
    assert 0 < figures["microseconds"]["50"] <= figures["microseconds"]["99.9"] <= figures["microseconds"]["max"]
    assert figures["qps"] == pytest.approx(60 / figures["seconds"], rel=0.01)


def test_it_ends_after_its_seconds(double: PredictorDouble) -> None:
    told: list[tuple[int, float]] = []
    load = LoadPlan(connections=2, seconds=0.4)
    figures, _ = measure(
        address_of(double.url), ROWS, load, model="ctr", on_progress=lambda done, share: told.append((done, share))
    )
    assert 0.4 <= figures["seconds"] < 5
    assert figures["requests"] > 10
    assert told == sorted(told)
    assert 0 < told[-1][1] <= 1


def test_arrivals_are_a_poisson_process_of_the_seed() -> None:
    due = np.array(list(islice(LoadPlan(rate=200.0, seed=4).due(), 20_000)))
    pauses = np.diff(due)
    assert pauses.mean() == pytest.approx(1 / 200, rel=0.03)
    assert pauses.std() == pytest.approx(1 / 200, rel=0.05)  # of the exponential distribution
    assert due.tolist() == list(islice(LoadPlan(rate=200.0, seed=4).due(), 20_000))
    assert due[0] != next(LoadPlan(rate=200.0, seed=5).due())


def test_an_open_loop_keeps_its_rate(double: PredictorDouble) -> None:
    load = LoadPlan(connections=4, rate=100.0, seconds=1.0, seed=1)
    expected = sum(1 for _ in iter(lambda due=load.due(): next(due) < 1.0, False))
    figures, _ = measure(address_of(double.url), ROWS, load, per_request=1, model="ctr")
    assert figures["requests"] == expected
    assert figures["failed"] == 0
    assert figures["loop"] == "open"


def test_a_stall_is_seen_by_all_that_fell_due_in_it(double: PredictorDouble) -> None:
    """With one connection, a stall of a second delays about 60 requests at 60/s; a closed loop sees one."""

    def stalled(load: LoadPlan) -> int:
        double.script.extend([lambda _: True, wait(1.0)])  # the first answer is not counted
        _, tally = measure(address_of(double.url), ROWS, load, per_request=1, model="ctr")
        return sum(seconds > 0.5 for seconds in tally.taken)

    assert stalled(LoadPlan(connections=1, requests=60)) == 1
    assert stalled(LoadPlan(connections=1, requests=70, rate=60.0)) > 10


def test_errors_are_counted_by_reason(double: PredictorDouble) -> None:
    body = b'{"predictions":[0.5],"version":9,"model":"ctr"}'
    head = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
    double.script.extend(
        [
            lambda _: True,
            refuse(429, "overloaded"),
            hang_up,
            refuse(503, "draining"),
            refuse(429, "overloaded"),
            answer_bytes(head % len(body) + body),
            answer_bytes(head % 2 + b"[]"),
        ]
    )
    figures, _ = measure(address_of(double.url), ROWS, LoadPlan(requests=20), per_request=4, model="ctr")
    assert figures["errors"] == {
        "overloaded": 2,
        "connection": 1,
        "draining": 1,
        "short_answer": 1,
        "no_prediction": 1,
    }
    assert (figures["requests"], figures["failed"]) == (20, 6)


def test_answers_that_come_too_late_are_failures(double: PredictorDouble) -> None:
    double.script.extend([lambda _: True, wait(6.0)])
    figures, _ = measure(address_of(double.url), ROWS, LoadPlan(requests=5, timeout=1.5), per_request=1, model="ctr")
    assert figures["errors"] == {"timeout": 1}
    assert figures["requests"] == 5


def test_nobody_there_is_an_error_at_once() -> None:
    gone = PredictorDouble()
    gone.stop()
    with pytest.raises(PeerError, match="cannot be reached"):
        measure(address_of(gone.url), ROWS, LoadPlan(requests=5), model="ctr")


def test_a_server_that_goes_and_comes_back_is_counted_and_found_again(double: PredictorDouble) -> None:
    port = double.server_address[1]
    found: dict[str, Any] = {}

    def run() -> None:
        found.update(measure(address_of(double.url), ROWS, LoadPlan(connections=2, seconds=4), model="ctr")[0])

    thread = threading.Thread(target=run)
    thread.start()
    eventually(lambda: len(double.asked) >= 20)
    double.stop()
    second = PredictorDouble(port)
    thread.join()
    second.stop()
    assert found["errors"]["connection"] in (1, 2)
    assert set(found["errors"]) <= {"connection", "refused"}
    assert len(second.asked) > 0


def test_a_load_without_end_is_refused(double: PredictorDouble) -> None:
    with pytest.raises(ValueError, match="never ends"):
        measure(address_of(double.url), ROWS, LoadPlan(), model="ctr")
