"""Requests that wait share a run of the network; the queue has an end, and so has patience."""

from __future__ import annotations

import threading
from queue import SimpleQueue

import pytest

from clickline.errors import VersionError
from clickline.net.request_errors import RequestError
from clickline.serve.prediction import PredictionResult
from clickline.serve.predictor.predictor import ChosenVersion, Predictor
from clickline.serve.predictor.served_model import ServedModel
from clickline.serve.serve_settings import ServeLimits
from support.eventually import eventually
from support.serving.raw_rows import Recorded, assert_close, question
from support.versions.known_versions import Gate, Known


class Asking:
    """A request that was submitted, and what came of it."""

    def __init__(self, predictor: Predictor, known: Known, first: int, last: int, *, timeout: float = 60.0) -> None:
        self.rows = slice(first, last)
        self._results: SimpleQueue[PredictionResult | RequestError] = SimpleQueue()
        self.chosen: ChosenVersion = predictor.choose()
        asked = question(self.chosen.model_version, known.rows[self.rows])
        predictor.submit(self.chosen, asked, done=self._results.put, timeout=timeout)

    def result(self) -> PredictionResult | RequestError:
        return self._results.get(timeout=60)

    def assert_answered(self, known: Known) -> None:
        result = self.result()
        assert isinstance(result, PredictionResult), result
        assert_close(result.probability, known.expected[result.version][self.rows])

    def failure(self) -> RequestError:
        result = self.result()
        assert isinstance(result, RequestError)
        return result


def test_what_comes_while_a_batch_runs_is_the_next_batch(known: Known, served: ServedModel) -> None:
    counts = Recorded()
    with Predictor({"ctr": served}, counts=counts) as predictor, Gate(served.model_version()) as gate:
        first = Asking(predictor, known, 0, 3)
        gate.reached.acquire()
        others = [Asking(predictor, known, n, n + 1 + n % 3) for n in range(1, 12)]
        gate.opened.set()
        for one in (first, *others):
            one.assert_answered(known)
    assert counts.observed["clickline_batch_rows", ""] == [3, sum(1 + n % 3 for n in range(1, 12))]


def test_batches_have_a_largest_size_and_large_requests_are_alone(known: Known, served: ServedModel) -> None:
    counts = Recorded()
    with (
        Predictor({"ctr": served}, counts=counts, limits=ServeLimits(batch_rows=8)) as predictor,
        Gate(served.model_version()) as gate,
    ):
        asked = [Asking(predictor, known, 0, 1)]
        gate.reached.acquire()
        asked += [Asking(predictor, known, 0, rows) for rows in (3, 20, 4, 3)]
        gate.opened.set()
        for one in asked:
            one.assert_answered(known)
    assert counts.observed["clickline_batch_rows", ""] == [1, 7, 20, 3]


def test_a_delay_waits_for_company(known: Known, served: ServedModel) -> None:
    counts = Recorded()
    with Predictor({"ctr": served}, counts=counts, limits=ServeLimits(delay=1.0, batch_rows=6)) as predictor:
        asked = [Asking(predictor, known, n, n + 2) for n in range(3)]
        for one in asked:  # the batch is full before the second is over
            one.assert_answered(known)
    assert counts.observed["clickline_batch_rows", ""] == [6]


def test_only_requests_of_one_version_are_put_together(known: Known, served: ServedModel) -> None:
    counts = Recorded()
    with Predictor({"ctr": served}, counts=counts) as predictor, Gate(served.model_version()) as gate:
        asked = [Asking(predictor, known, 0, 1)]
        gate.reached.acquire()
        asked.append(Asking(predictor, known, 0, 2))
        known.switch(1)
        assert served.refresh()
        asked += [Asking(predictor, known, 0, 3), Asking(predictor, known, 3, 7)]
        gate.opened.set()
        for one in asked:
            one.assert_answered(known)
    assert counts.observed["clickline_batch_rows", ""] == [1, 2, 7]
    assert [one.chosen.model_version.version for one in asked] == [3, 3, 1, 1]


def test_one_request_too_many_is_refused_with_a_word_when_to_come_again(known: Known, served: ServedModel) -> None:
    with Predictor({"ctr": served}, limits=ServeLimits(queue=5)) as predictor, Gate(served.model_version()) as gate:
        first = Asking(predictor, known, 0, 1)
        gate.reached.acquire()
        waiting = [Asking(predictor, known, 0, 1) for _ in range(5)]
        with pytest.raises(RequestError, match="5 requests are waiting, which is the limit") as caught:
            Asking(predictor, known, 0, 1)
        assert (caught.value.reason, caught.value.status) == ("overloaded", 429)
        assert caught.value.retry_after is not None and caught.value.retry_after > 0
        assert predictor.status()["waiting"] == 5
        gate.opened.set()
        for one in (first, *waiting):
            one.assert_answered(known)
        Asking(predictor, known, 0, 1).assert_answered(known)  # there is room again


def test_a_request_that_waited_too_long_is_not_computed(known: Known, served: ServedModel) -> None:
    counts = Recorded()
    with Predictor({"ctr": served}, counts=counts) as predictor, Gate(served.model_version()) as gate:
        first = Asking(predictor, known, 0, 1)
        gate.reached.acquire()
        late = Asking(predictor, known, 0, 2, timeout=0.0)
        patient = Asking(predictor, known, 0, 3)
        gate.opened.set()
        failure = late.failure()
        assert (failure.reason, failure.status) == ("timeout", 504)
        first.assert_answered(known)
        patient.assert_answered(known)
    assert counts.observed["clickline_batch_rows", ""] == [1, 3]


def test_draining_finishes_what_is_here_and_takes_no_more(known: Known, served: ServedModel) -> None:
    with Predictor({"ctr": served}) as predictor, Gate(served.model_version()) as gate:
        asked = [Asking(predictor, known, 0, 1) for _ in range(3)]
        gate.reached.acquire()
        assert not predictor.drain(0.0)
        with pytest.raises(RequestError, match="about to stop") as caught:
            Asking(predictor, known, 0, 1)
        assert (caught.value.reason, caught.value.status) == ("draining", 503)
        drained: list[bool] = []
        waiter = threading.Thread(target=lambda: drained.append(predictor.drain(60)))
        waiter.start()
        gate.opened.set()
        waiter.join()
        assert drained == [True]
        for one in asked:
            one.assert_answered(known)


def test_a_batch_that_fails_is_tried_request_by_request(known: Known, served: ServedModel) -> None:
    with Predictor({"ctr": served}) as predictor, Gate(served.model_version()) as gate:
        gate.error = VersionError("a network that fails")
        first = Asking(predictor, known, 0, 1)
        gate.reached.acquire()
        others = [Asking(predictor, known, 0, 1), Asking(predictor, known, 0, 1)]
        gate.opened.set()
        for one in (first, *others):
            failure = one.failure()
            assert (failure.reason, failure.status) == ("internal", 500)
        gate.error = None
        Asking(predictor, known, 0, 1).assert_answered(known)  # the thread lives


def test_whoever_cannot_be_told_does_not_stop_the_others(
    known: Known, served: ServedModel, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(result: PredictionResult | RequestError) -> None:
        raise RuntimeError("nobody listens")

    with Predictor({"ctr": served}) as predictor:
        chosen = predictor.choose()
        predictor.submit(chosen, question(chosen.model_version, known.rows[:1]), done=broken)
        Asking(predictor, known, 0, 1).assert_answered(known)
        eventually(lambda: "the callback of a request failed" in caplog.text)
        assert predictor.drain(60)


def test_a_bug_on_the_way_is_told_and_the_thread_lives(
    known: Known, served: ServedModel, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    counts = Recorded()
    with Predictor({"ctr": served}, counts=counts) as predictor:
        with monkeypatch.context() as broken:
            broken.setattr(counts, "observe", lambda *_: 1 / 0)
            failure = Asking(predictor, known, 0, 1).failure()
            assert (failure.reason, str(failure)) == ("internal", "the prediction failed")
        assert "ZeroDivisionError" in caplog.text
        Asking(predictor, known, 0, 1).assert_answered(known)
        assert predictor.drain(60)


def test_several_threads_answer_side_by_side(known: Known, served: ServedModel) -> None:
    with (
        Predictor({"ctr": served}, threads=2, limits=ServeLimits(batch_rows=1)) as predictor,
        Gate(served.model_version()) as gate,
    ):
        asked = [Asking(predictor, known, 0, 1), Asking(predictor, known, 1, 2)]
        gate.reached.acquire()
        gate.reached.acquire()  # both are at it
        gate.opened.set()
        for one in asked:
            one.assert_answered(known)


def test_without_threads_whoever_is_woken_computes_all_that_came_as_one_batch(
    known: Known, served: ServedModel
) -> None:
    counts, calls = Recorded(), []
    with Predictor({"ctr": served}, threads=0, counts=counts, limits=ServeLimits(batch_rows=8)) as predictor:
        early = Asking(predictor, known, 0, 2)
        predictor.attach(calls.append)
        others = [Asking(predictor, known, n, n + 2) for n in range(1, 6)]
        assert len(calls) == 1  # one ring for all of them
        calls.pop()()
        assert len(calls) == 1  # there is more than a batch may have, and others have their turn first
        calls.pop()()
        assert not calls
        for one in (early, *others):
            one.assert_answered(known)
        assert counts.observed["clickline_batch_rows", ""] == [8, 4]
        late = Asking(predictor, known, 0, 1)
    assert late.failure().reason == "draining"
