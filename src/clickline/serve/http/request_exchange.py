"""A request with its response, from when it is complete until its bytes are sent; and how results get back to the loop.

Everything here belongs to the loop's thread, except `RequestExchange.done`, which the threads that compute call. A
batch of results wakes the loop once: the first one schedules a call, and the rest are found when it runs.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from time import perf_counter
from typing import Protocol

from clickline.serve.http.admission import ByteBudget
from clickline.serve.http.http_messages import Request, Response
from clickline.serve.metrics.request_series import NO_MODEL
from clickline.serve.prediction import Outcome
from clickline.serve.protocols.prediction_protocol import OpenedRequest, PredictionProtocol


class RequestOrigin(Protocol):
    """The connection that a request came by."""

    def answered(self) -> None:
        """One of its exchanges has got its response."""


class RequestExchange:
    """One request on its way. It carries what was known at the start to where the response is made."""

    __slots__ = (
        *("budget", "completions", "connection", "held", "opened", "protocol", "request", "response"),
        *("rows", "series", "started", "version"),
    )

    def __init__(
        self,
        request: Request | None,
        *,
        connection: RequestOrigin,
        completions: CompletionQueue,
        budget: ByteBudget,
        held: int = 0,
    ) -> None:
        self.request = request
        """None for bytes that could not be read as a request; such an exchange has a response from the start."""
        self.response: Response | None = None
        self.connection, self.completions = connection, completions
        self.budget, self.held = budget, held
        """held: bytes that its body takes of the budget, until the response is there."""
        self.started = perf_counter()
        self.protocol: PredictionProtocol | None = None
        """In which a prediction is asked for; None for everything else."""
        self.opened: OpenedRequest | None = None
        self.series = NO_MODEL
        """Labels of the metrics, once the model is chosen."""
        self.rows = self.version = 0

    def finish(self, response: Response) -> None:
        """The response is there. Only the first one counts."""
        if self.response is None:
            self.response = response
            self.release()
            # Last: this may send the response at once and start the next request, which needs room in the budget.
            self.connection.answered()

    def hold(self, size: int) -> None:
        """Reserve more bytes for its body. Raises RequestError if there is no room."""
        self.budget.take(size)
        self.held += size

    def release(self) -> None:
        """Drop the body: it is not needed any more."""
        self.budget.release(self.held)
        self.held = 0
        self.opened = None
        if self.request is not None:
            self.request.drop_body()

    def done(self, outcome: Outcome) -> None:
        """The prediction is there, or the reason why there is none. Any thread."""
        self.completions.put(self, outcome)


class CompletionQueue:
    """Finished predictions on their way back to the loop. Created and read in the loop's thread, filled by any."""

    def __init__(self, *, loop: asyncio.AbstractEventLoop, resolve: Callable[[RequestExchange, Outcome], None]) -> None:
        self._loop, self._resolve = loop, resolve
        self._thread = threading.get_ident()
        self._finished: deque[tuple[RequestExchange, Outcome]] = deque()
        self._scheduled = False

    def put(self, exchange: RequestExchange, outcome: Outcome) -> None:
        if threading.get_ident() == self._thread:
            self._resolve(exchange, outcome)
            return
        self._finished.append((exchange, outcome))
        # No lock is needed: a thread that sees True here has appended before `_deliver` lowered the flag, and
        # `_deliver` looks at the queue only after that, so it finds what was appended.
        if not self._scheduled:
            self._scheduled = True
            with suppress(RuntimeError):  # the loop has ended, and its clients with it
                self._loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        self._scheduled = False
        finished = self._finished
        while finished:
            self._resolve(*finished.popleft())
