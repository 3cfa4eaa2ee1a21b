"""A request and its answer, from when it is whole until its bytes are sent; and how answers come back to the loop.

Everything here belongs to the loop's thread, except `Exchange.done`, which the threads that compute call. A batch of
answers wakes the loop once: the first of them rings, the rest are found when it comes.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from time import perf_counter
from typing import Protocol

from clickline.net.request_errors import RequestError
from clickline.serve.http.admission import ByteBudget
from clickline.serve.http.http_messages import Request, Response
from clickline.serve.metrics.request_series import NOBODY
from clickline.serve.prediction import PredictionResult
from clickline.serve.protocols.protocol import Asked, Form

Found = PredictionResult | RequestError


class Answerable(Protocol):
    """The connection that a request came by."""

    def answered(self) -> None: ...


class Exchange:
    """One request on its way. Most of it is there so that whoever answers last knows what was asked first."""

    __slots__ = (
        *("asked", "budget", "connection", "form", "held", "mailbox", "request", "response"),
        *("rows", "series", "started", "version"),
    )

    def __init__(
        self, request: Request | None, *, connection: Answerable, mailbox: Mailbox, budget: ByteBudget, held: int = 0
    ) -> None:
        self.request = request
        """None for what could not be read as one; it has a response from the start."""
        self.response: Response | None = None
        self.connection, self.mailbox = connection, mailbox
        self.budget, self.held = budget, held
        """Bytes that its body takes of the budget, until the answer is there."""
        self.started = perf_counter()
        self.form: Form | None = None
        """In which a prediction is asked for; None for everything else."""
        self.asked: Asked | None = None
        self.series = NOBODY
        """Of the metrics, once the model is chosen."""
        self.rows = self.version = 0

    def finish(self, response: Response) -> None:
        """The answer is there. The first one counts."""
        if self.response is None:
            self.response = response
            self.let_go()
            self.connection.answered()

    def hold(self, size: int) -> None:
        """So many bytes more are kept for it. Raises RequestError if there is no room."""
        self.budget.take(size)
        self.held += size

    def let_go(self) -> None:
        """Its body is not needed any more."""
        self.budget.release(self.held)
        self.held = 0
        self.asked = None
        if self.request is not None:
            self.request.drop_body()

    def done(self, found: Found) -> None:
        """The prediction is there, or why there is none. Any thread."""
        self.mailbox.put(self, found)


class Mailbox:
    """Answers, for the loop. Made, and read, in the loop's thread; filled by any."""

    def __init__(self, *, loop: asyncio.AbstractEventLoop, resolve: Callable[[Exchange, Found], None]) -> None:
        self._loop, self._resolve = loop, resolve
        self._thread = threading.get_ident()
        self._letters: deque[tuple[Exchange, Found]] = deque()
        self._rung = False

    def put(self, exchange: Exchange, found: Found) -> None:
        if threading.get_ident() == self._thread:
            self._resolve(exchange, found)
            return
        self._letters.append((exchange, found))
        # Whoever sees True here has put its letter in before the loop lowered the flag, so the loop will find it.
        if not self._rung:
            self._rung = True
            with suppress(RuntimeError):  # the loop has ended, and with it everybody who waited
                self._loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        self._rung = False
        letters = self._letters
        while letters:
            self._resolve(*letters.popleft())
