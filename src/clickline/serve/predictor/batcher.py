"""Dynamic batching: the queue between the connections and the versions, and the threads that compute.

A batch is what came while the last one ran: at rest a request is computed at once, under load the waiting ones share a
run of the network. Only requests of the same version share a batch. The queue is bounded: one request too many is
refused at once, with a time when to try again, and one that has waited too long is not computed.

Batches are computed by threads of its own or, without any, by an event loop that `attach` names: handing a request to a
thread and its result back are two wake-ups, which on some machines take as long as the network.

Beware: `done` is called by the thread that computes and must not block; and no variable of a thread may hold a request
while it waits for the next, since that would keep a version, with its memory, that is not served any more.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from time import perf_counter

from clickline.net.request_errors import refuse
from clickline.serve.failure_log import log_failure
from clickline.serve.metrics.metric_sink import MetricSink, NoMetrics
from clickline.serve.prediction import Outcome
from clickline.serve.predictor.batch_computation import BatchComputation
from clickline.serve.predictor.queued_request import QueuedRequest
from clickline.serve.serve_settings import ServeLimits

_log = logging.getLogger(__name__)


class Batcher:
    """A queue of requests and the threads that compute them in batches."""

    def __init__(
        self, limits: ServeLimits, *, threads: int = 1, counts: MetricSink | None = None, name: str = "batches"
    ) -> None:
        self._limits = limits
        self._counts: MetricSink = NoMetrics() if counts is None else counts
        self._computation = BatchComputation(self._counts, finish=self._finish)
        self._queue: SimpleQueue[QueuedRequest | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._waiting = self._open = 0
        """Requests in the queue; requests that are not finished. Both change under the lock."""
        self._draining = False
        self._pace = 0.001
        """Seconds that a request has taken lately, as a moving average."""
        self._aside: deque[QueuedRequest | None] = deque()
        """Without threads: requests that were taken from the queue and did not fit into a batch, oldest first."""
        self._wake: Callable[[], None] | None = None
        self._scheduled = False
        """Whether `wake` was called for a `compute` that has not begun yet."""
        self._threads = [threading.Thread(target=self._work, name=f"{name} {n}", daemon=True) for n in range(threads)]
        for thread in self._threads:
            thread.start()

    @property
    def waiting(self) -> int:
        return self._waiting

    def attach(self, wake: Callable[[], None]) -> None:
        """Without threads: `wake`, called by any thread, has the thread that computes call `compute` soon."""
        if not self._threads:
            self._wake = wake
            self._schedule()

    def compute(self) -> None:
        """Compute one batch. If more requests wait, schedule another call, so that the loop can read in between."""
        self._scheduled = False  # before the queue is read: see `_schedule`
        try:
            first = self._aside.popleft() if self._aside else self._queue.get_nowait()
        except Empty:
            return
        if first is not None:
            self._compute(self._gather(first, self._aside))
        if self._aside or not self._queue.empty():
            self._schedule()

    def submit(self, request: QueuedRequest) -> None:
        """Queue a request; its `done` is called later. Raises RequestError if there is no room, or it is draining."""
        with self._lock:
            if self._draining:
                raise refuse("draining", "this server is about to stop; ask another one", 1.0)
            # Refused here, before it costs anything: under overload, those that wait are answered in time and the rest
            # learn at once when to come back.
            if self._waiting >= self._limits.queue:
                # The time that the requests ahead of it will take, at the recent pace.
                wait = max(0.05, self._waiting * self._pace)
                raise refuse("overloaded", f"{self._waiting} requests are waiting, which is the limit", wait)
            # Before it is queued: the thread that takes it subtracts it again, perhaps at once.
            self._waiting += 1
            self._open += 1
        # Outside the lock, so it may come after the end marks of `close`; `_refuse_rest` looks for such requests.
        self._queue.put(request)
        if not self._threads:
            self._schedule()

    def drain(self, seconds: float) -> bool:
        """Accept no more, and wait for those that are here. Returns whether all were answered."""
        with self._idle:
            self._draining = True
            return self._idle.wait_for(lambda: self._open == 0, timeout=seconds)

    def close(self) -> None:
        """End the threads, after they have computed what waits; `drain` first to limit the time."""
        with self._lock:
            self._draining = True
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()
        if not self._threads:
            self._refuse_rest(self._aside)

    def _schedule(self) -> None:
        # No lock is needed: a thread that sees True here has queued its request before `compute` lowered the flag, and
        # `compute` reads the queue only after that, so it finds the request.
        if not self._scheduled and self._wake is not None:
            self._scheduled = True
            self._wake()

    def _work(self) -> None:
        aside: deque[QueuedRequest | None] = deque()
        while True:
            first = aside.popleft() if aside else self._queue.get()
            if first is None:
                break
            group = self._gather(first, aside)
            del first  # see "Beware" above
            self._compute(group)
            del group
        self._refuse_rest(aside)

    def _compute(self, group: list[QueuedRequest]) -> None:
        try:
            self._run(group)
        except Exception as error:  # a bug; clients must get an answer, and the thread must live
            log_failure(_log, "a batch failed", error)
            for request in group:
                self._finish(request, refuse("internal", "the prediction failed"))

    def _refuse_rest(self, aside: deque[QueuedRequest | None]) -> None:
        """Refuse what was queued while the threads ended."""
        while True:
            try:
                left = aside.popleft() if aside else self._queue.get_nowait()
            except Empty:
                break
            if left is None:
                if self._threads:
                    self._queue.put(None)  # the end mark of another thread, which is still at work
                break
            self._took([left])
            self._finish(left, refuse("draining", "this server has stopped; ask another one", 1.0))

    def _gather(self, first: QueuedRequest, aside: deque[QueuedRequest | None]) -> list[QueuedRequest]:
        """Collect the requests that are computed together with the first one.

        `aside` keeps, in their order, requests that were taken from the queue and do not fit: they are of another
        version or have too many rows. The end mark of a thread (None) goes there as well.
        """
        group, rows, most = [first], len(first), self._limits.batch_rows
        # Those that were put aside before came earlier than all in the queue. Each is visited once, and what still does
        # not fit goes to the back, so that their order stays.
        for _ in range(len(aside)):
            request = aside.popleft()
            if request is not None and request.model_version is first.model_version and rows + len(request) <= most:
                group.append(request)
                rows += len(request)
            else:
                aside.append(request)
        # `limits.delay` lets the first request wait for others; without it, only what is in the queue already is taken.
        until = perf_counter() + self._limits.delay if self._limits.delay else 0.0
        while rows < most and len(aside) < self._limits.queue:
            try:
                left = until - perf_counter() if until else 0.0
                if self._queue.empty() and left <= 0:
                    break
                # Another thread may have emptied the queue since; then this raises Empty once the time is over.
                request = self._queue.get(timeout=max(left, 0.0))
            except Empty:
                break
            if request is not None and request.model_version is first.model_version and rows + len(request) <= most:
                group.append(request)
                rows += len(request)
            else:
                aside.append(request)
                if request is None:  # the end: nothing more comes
                    break
        return group

    def _run(self, group: list[QueuedRequest]) -> None:
        self._took(group)
        start = perf_counter()
        # A client whose time is over has gone: to compute for it would make the others wait.
        in_time = []
        for request in group:
            self._counts.observe("clickline_seconds", start - request.arrived, request.series.queue)
            if start > request.deadline:
                waited = start - request.arrived
                self._finish(request, refuse("timeout", f"not computed: it had waited for {waited:.3f} s"))
            else:
                in_time.append(request)
        if in_time:
            self._computation.answer(in_time)
            seconds = (perf_counter() - start) / len(in_time)
            self._pace += 0.1 * (seconds - self._pace)

    def _took(self, group: list[QueuedRequest]) -> None:
        with self._lock:
            self._waiting -= len(group)

    def _finish(self, request: QueuedRequest, outcome: Outcome) -> None:
        # After a bug `_compute` refuses the whole group, with requests in it that were answered already.
        if request.finished:
            return
        request.finished = True
        try:
            request.done(outcome)
        except Exception as error:
            log_failure(_log, "the callback of a request failed", error)
        # After `done`: `drain` must not return before the last response was handed over.
        with self._lock:
            self._open -= 1
            if not self._open:
                self._idle.notify_all()
