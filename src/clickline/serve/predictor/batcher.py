"""Requests that wait, put together and answered: the threads between those who ask and the versions that answer.

A batch is what came while the last one ran: at rest a request is computed at once, under load the waiting ones share a
run of the network. Only requests of the same version are put together. The queue has an end: one request too many is
refused at once, with a word when to come again, and one that has waited too long is not computed.

Who computes: threads of its own, or, without any, a loop that somebody else runs and that `attach` names. Handing a
request to a thread and its answer back are two wake-ups, which on some machines take as long as the network.

Beware: `done` is called by whoever computes and must not block; and no variable of a thread may hold an item while it
waits for the next, since that would hold a version, with its memory, that is served no more.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from clickline.data.batch import join
from clickline.errors import ClicklineError
from clickline.net.request_errors import RequestError, refuse
from clickline.serve.http.failure_log import log_failure
from clickline.serve.metrics.metric_sink import MetricSink, NoMetrics
from clickline.serve.prediction import PredictionResult
from clickline.serve.predictor.queued_request import Item, move
from clickline.serve.predictor.row_sources import VersionGoneError
from clickline.serve.serve_settings import Limits

_log = logging.getLogger(__name__)


class Batcher:
    """A queue and its threads."""

    def __init__(
        self, limits: Limits, *, threads: int = 1, counts: MetricSink | None = None, name: str = "batches"
    ) -> None:
        self._limits = limits
        self._counts: MetricSink = NoMetrics() if counts is None else counts
        self._queue: SimpleQueue[Item | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._waiting = self._open = 0
        self._draining = False
        self._pace = 0.001
        """Seconds that a request has taken lately."""
        self._aside: deque[Item | None] = deque()
        self._wake: Callable[[], None] | None = None
        self._rung = False
        self._threads = [threading.Thread(target=self._work, name=f"{name} {n}", daemon=True) for n in range(threads)]
        for thread in self._threads:
            thread.start()

    @property
    def waiting(self) -> int:
        return self._waiting

    def attach(self, wake: Callable[[], None]) -> None:
        """Without threads: `wake`, called by any thread, has `compute` called soon by the one that computes."""
        if not self._threads:
            self._wake = wake
            self._ring()

    def compute(self) -> None:
        """One batch of what waits; if more does, it is asked for again, so that others have their turn in between."""
        self._rung = False
        try:
            first = self._aside.popleft() if self._aside else self._queue.get_nowait()
        except Empty:
            return
        if first is not None:
            self._compute(self._gather(first, self._aside))
        if self._aside or not self._queue.empty():
            self._ring()

    def submit(self, item: Item) -> None:
        """Queue a request; `done` hears of it later. Raises if there is no room, or no more are taken."""
        with self._lock:
            if self._draining:
                raise refuse("draining", "this server is about to stop; ask another", 1.0)
            if self._waiting >= self._limits.queue:
                wait = max(0.05, self._waiting * self._pace)
                raise refuse("overloaded", f"{self._waiting} requests are waiting, which is the limit", wait)
            self._waiting += 1
            self._open += 1
        self._queue.put(item)
        if not self._threads:
            self._ring()

    def drain(self, seconds: float) -> bool:
        """Take no more, and wait for those that are here. Whether all were answered."""
        with self._idle:
            self._draining = True
            return self._idle.wait_for(lambda: self._open == 0, timeout=seconds)

    def close(self) -> None:
        """What waits is still computed; see `drain` for less patience."""
        with self._lock:
            self._draining = True
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()
        if not self._threads:
            self._refuse_rest(self._aside)

    def _ring(self) -> None:
        # Whoever sees True here has queued its item before `compute` lowered the flag, which will find it.
        if not self._rung and self._wake is not None:
            self._rung = True
            self._wake()

    def _work(self) -> None:
        aside: deque[Item | None] = deque()
        while True:
            first = aside.popleft() if aside else self._queue.get()
            if first is None:
                break
            group = self._gather(first, aside)
            del first
            self._compute(group)
            del group
        self._refuse_rest(aside)

    def _compute(self, group: list[Item]) -> None:
        try:
            self._run(group)
        except Exception as error:  # a bug; who waits must hear of it, and the thread must live
            log_failure(_log, "a batch failed", error)
            for item in group:
                self._finish(item, refuse("internal", "the prediction failed"))

    def _refuse_rest(self, aside: deque[Item | None]) -> None:
        """What came in the very moment of the end."""
        while True:
            try:
                left = aside.popleft() if aside else self._queue.get_nowait()
            except Empty:
                break
            if left is None:
                if self._threads:
                    self._queue.put(None)  # that of another thread, which is still at work
                break
            self._took([left])
            self._finish(left, refuse("draining", "this server has stopped; ask another", 1.0))

    def _gather(self, first: Item, aside: deque[Item | None]) -> list[Item]:
        """What can be computed together with the first; the others are put aside, in their order."""
        group, rows, most = [first], len(first), self._limits.batch_rows
        for _ in range(len(aside)):
            item = aside.popleft()
            if item is not None and item.loaded is first.loaded and rows + len(item) <= most:
                group.append(item)
                rows += len(item)
            else:
                aside.append(item)
        until = perf_counter() + self._limits.delay if self._limits.delay else 0.0
        while rows < most and len(aside) < self._limits.queue:
            try:
                left = until - perf_counter() if until else 0.0
                if self._queue.empty() and left <= 0:
                    break
                item = self._queue.get(timeout=max(left, 0.0))
            except Empty:
                break
            if item is not None and item.loaded is first.loaded and rows + len(item) <= most:
                group.append(item)
                rows += len(item)
            else:
                aside.append(item)
                if item is None:
                    break
        return group

    def _run(self, group: list[Item]) -> None:
        self._took(group)
        start = perf_counter()
        live = []
        for item in group:
            self._counts.observe("clickline_seconds", start - item.arrived, item.series.queue)
            if start > item.deadline:
                waited = start - item.arrived
                self._finish(item, refuse("timeout", f"not computed: it had waited for {waited:.3f} s"))
            else:
                live.append(item)
        if live:
            self._answer(live)
            seconds = (perf_counter() - start) / len(live)
            self._pace += 0.1 * (seconds - self._pace)

    def _answer(self, group: list[Item]) -> None:
        """All of one version."""
        loaded = group[0].loaded
        try:
            batch = group[0].question.batch if len(group) == 1 else join([item.question.batch for item in group])
            probability = loaded.predict(batch, requests=len(group))
        except VersionGoneError as error:
            self._move(group, str(error))
            return
        except RequestError as error:
            for item in group:
                self._finish(item, error)
            return
        except Exception as error:  # a bug, or a network that fails on some values
            if len(group) > 1:  # one of them may be the cause; the others shall not suffer
                for item in group:
                    self._answer([item])
                return
            if not isinstance(error, ClicklineError):
                log_failure(_log, "a prediction failed", error)
            self._finish(group[0], refuse("internal", f"the prediction failed: {error}"))
            return
        self._counts.observe("clickline_batch_rows", len(batch))
        self._counts.count("clickline_rows_total", len(batch))
        self._count_predicted(group, probability, loaded.labels)
        first = 0
        for item in group:
            last = first + len(item)
            answer = PredictionResult(
                probability[first:last], loaded.version, item.served.name, item.series.variant, loaded.labels
            )
            if item.cache_key is not None and loaded.requests is not None:  # that of the version that computed it
                loaded.requests.put(item.cache_key, answer.probability, item.question.missing)
            self._finish(item, answer)
            first = last

    def _count_predicted(self, group: list[Item], probability: NDArray[np.float32], labels: tuple[str, ...]) -> None:
        """Once for the whole batch, unless it has requests of several variants."""
        first = last = 0
        for number, item in enumerate(group, 1):
            last += len(item)
            if number < len(group) and group[number].series is item.series:
                continue
            for column, label in enumerate(labels):
                values = probability[first:last, column]
                self._counts.observe_all("clickline_predicted_probability", values, item.series.predicted(label))
            first = last

    def _move(self, group: list[Item], why: str) -> None:
        """The cube has the version no more: answer again, from the start, with the one that is current now."""
        moved: list[Item] = []
        for item in group:
            try:
                move(item, why)
                moved.append(item)
            except RequestError as error:
                self._finish(item, error)
            except Exception as error:
                log_failure(_log, "a request could not be read again", error)
                self._finish(item, refuse("internal", f"the request could not be read again: {error}"))
        while moved:
            same = [item for item in moved if item.loaded is moved[0].loaded]
            moved = [item for item in moved if item.loaded is not same[0].loaded]
            self._answer(same)

    def _took(self, group: list[Item]) -> None:
        with self._lock:
            self._waiting -= len(group)

    def _finish(self, item: Item, result: PredictionResult | RequestError) -> None:
        if item.told:
            return
        item.told = True
        try:
            item.done(result)
        except Exception as error:
            log_failure(_log, "whoever asked could not be told", error)
        with self._lock:
            self._open -= 1
            if not self._open:
                self._idle.notify_all()
