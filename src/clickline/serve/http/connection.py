"""One connection: bytes to requests, responses to bytes, in the order of the requests.

A client is trusted with nothing: slow ones are dropped, and a client that does not read its responses is not read from
either. The token is checked when the head of a request is there; without it, nothing that follows is read. Requests may
come before the responses to earlier ones; some of them are worked on at once, the others wait, and while any wait,
nothing more is read.

When something is refused in a way that leaves unclear where the next request begins, the connection ends: the response
is sent, our side is closed, and what still comes is read and dropped for a moment. Closing at once would make the
kernel reset the connection, and the client would never see the response.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import suppress
from enum import Enum
from math import inf
from typing import cast

from clickline.net.request_errors import RequestError, refuse
from clickline.serve.failure_log import log_failure
from clickline.serve.http.connection_table import ConnectionTable
from clickline.serve.http.http_messages import CONTINUE, Request, Response, error_response, render
from clickline.serve.http.request_exchange import CompletionQueue, RequestExchange
from clickline.serve.http.request_handler import RequestHandler
from clickline.serve.http.request_parser import RequestParser

log = logging.getLogger("clickline.serve")
AT_ONCE = 16
"""Requests of one connection that are worked on at the same time."""
_WRITTEN_AHEAD = 256 << 10


class ConnectionState(Enum):
    """What is done with bytes that come.

    NEW -> READING -> REFUSED -> ENDING; a connection may end from any state, and RELAYED follows NEW only.
    """

    NEW = "new"
    """Too few bytes have come to know whether it speaks HTTP/1.1 or HTTP/2."""
    READING = "reading"
    """They are parsed as requests."""
    REFUSED = "refused"
    """They are dropped; earlier requests are still answered, then the refusal is sent."""
    ENDING = "ending"
    """They are dropped, and nothing more is sent; also when the transport has gone."""
    RELAYED = "relayed"
    """They belong to gRPC."""


# As globals, since states are compared several times in every request.
_NEW, _READING, _REFUSED, _ENDING, _RELAYED = ConnectionState


class Connection(asyncio.Protocol):
    """Created by the acceptor, called by its transport, its parser, its exchanges and the table's deadlines."""

    def __init__(self, table: ConnectionTable, handler: RequestHandler, completions: CompletionQueue) -> None:
        self._table, self._handler, self._completions = table, handler, completions
        self._transport: asyncio.Transport | None = None
        self._parser = RequestParser(self, body_limit=table.body_limit)
        self._state = _NEW
        self._first = b""
        """What came in the state NEW."""
        self._waiting: deque[RequestExchange] = deque()
        """Requests that have not been started."""
        self._running: deque[RequestExchange] = deque()
        """Requests that are worked on, in their order; the first one is answered first."""
        self._starting = False
        """Whether `_start_more` is on the stack: handling a request may answer it at once."""
        self._secure = self._eof = self._authenticated = self._owes_continue = False
        """TLS; the client has closed its side; it has shown the token; it waits for 100 Continue."""
        self._full = self._paused = False
        """The transport's write buffer is full; reading is paused."""
        self._held = 0
        """Bytes that the request which is coming takes of the budget."""
        self.deadline = inf

    # --- called by the transport ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = made = cast(asyncio.Transport, transport)
        made.set_write_buffer_limits(high=_WRITTEN_AHEAD)
        self._secure = made.get_extra_info("ssl_object") is not None
        self.deadline = self._table.now() + self._table.timeouts.head
        if not self._table.admit(self, made.get_extra_info("peername")):
            self._refuse(self._table.full())

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._state = _ENDING
        self._drop_requests()
        self._table.forget(self)

    def eof_received(self) -> bool:
        """A client that will send no more may still wait for responses; where TLS ends, both directions do."""
        self._eof = True
        return bool(self._running or self._waiting) and self._state is not _ENDING and not self._secure

    def pause_writing(self) -> None:
        self._full = True
        self._pause_or_resume_reading()
        self.moved_on()

    def resume_writing(self) -> None:
        self._full = False
        # First: reading is resumed only if no request waits any more.
        self._start_more()
        self._pause_or_resume_reading()
        self.moved_on()

    def data_received(self, data: bytes) -> None:
        if self._state is not _READING:
            data = self._recognize(data)
            if not data:
                return
        try:
            # Calls back: `head`, `reserve`, `complete` and so on below, which may answer requests before this returns.
            self._parser.feed(data)
        except RequestError as error:
            self._refuse(error)
        except Exception as error:
            log_failure(log, "a connection failed", error)
            self._refuse(refuse("internal", "the server failed at this; its log says where"))
        if self._waiting:
            self._pause_or_resume_reading()

    # --- called by the parser ---

    def moved_on(self) -> None:
        """Another part of a request is awaited now, or a response is out: set the deadline anew."""
        if self._state is _ENDING:  # its deadline is that of the end
            return
        # This runs when a part of a request begins, not for every piece: a client that trickles bytes gains no time.
        timeouts, parser = self._table.timeouts, self._parser
        if self._full:
            seconds = timeouts.writing
        elif parser.begun:
            seconds = timeouts.head if parser.in_head else timeouts.body
        else:
            # While we owe responses, the client need not send anything.
            seconds = inf if self._running or self._waiting else timeouts.idle
        self.deadline = self._table.now() + seconds

    def head(self, method: bytes, url: bytes, headers: dict[bytes, bytes], *, has_body: bool) -> None:
        table = self._table
        if not table.token_required:
            return
        shown = self._handler.authorised(method, url, headers, has_body=has_body)
        if shown and not self._authenticated:
            self._authenticated = True
            if not table.authenticated(self):
                raise table.full()

    def reserve(self, size: int) -> None:
        self._table.budget.take(size)
        self._held += size

    def continue_expected(self) -> None:
        self._owes_continue = True
        self._send_continue()

    def complete(self, request: Request) -> None:
        self._owes_continue = False
        # The exchange releases these bytes from now on; a refusal of the next request must not release them again.
        held, self._held = self._held, 0
        exchange = RequestExchange(
            request, connection=self, completions=self._completions, budget=self._table.budget, held=held
        )
        if self._state is _ENDING:  # an earlier request in the same bytes was the last one
            exchange.release()
            return
        self._waiting.append(exchange)
        self._start_more()

    # --- responses ---

    def answered(self) -> None:
        """An exchange has got its response: send those that no earlier request holds up."""
        running = self._running
        while running and (response := running[0].response) is not None:
            self._send(running.popleft(), response)
        if not self._starting and self._state is not _ENDING:
            self._start_more()
            self._pause_or_resume_reading()

    def _start_more(self) -> None:
        """Have waiting requests handled, as many as may run at once and as long as the client reads."""
        # `handle` may answer at once and so call `answered`, which would call this again for every waiting request; the
        # stack would grow with what a client sends in one go. The loop below goes on instead.
        if self._starting:
            return
        self._starting = True
        try:
            while self._waiting and len(self._running) < AT_ONCE and not self._full and self._state is not _ENDING:
                exchange = self._waiting.popleft()
                self._running.append(exchange)
                if exchange.response is None:
                    self._table.busy_poll.request_came()
                    self._handler.handle(exchange)
                else:  # a refusal
                    self.answered()
        finally:
            self._starting = False

    def _send(self, exchange: RequestExchange, response: Response) -> None:
        table, request, transport = self._table, exchange.request, self._transport
        if transport is None or self._state is _ENDING:
            return
        last = not self._running and not self._waiting
        # After a refusal (request is None) it is not known where the next request begins. At the end of a worker, only
        # the last response that is due says so: those before it must not make the client drop the rest.
        keep = request is not None and request.keep_alive and not (last and (self._eof or table.draining))
        transport.write(
            render(
                response,
                date=table.date.line,
                keep_alive=keep,
                modern=request is None or request.modern,
                head=request is not None and request.method == "HEAD",
            )
        )
        self._handler.sent(exchange, response)
        table.busy_poll.response_sent()
        if not keep:
            self._end(linger=request is None)
        elif last:
            self._send_continue()
            self.moved_on()

    def _send_continue(self) -> None:
        """100 Continue, which must not come before the responses to earlier requests."""
        if self._owes_continue and self._transport is not None and not self._running and not self._waiting:
            self._owes_continue = False
            self._transport.write(CONTINUE)

    def _refuse(self, error: RequestError) -> None:
        """Send an error after the responses that are still due, and read no more requests."""
        table = self._table
        if self._state is not _ENDING:
            self._state = _REFUSED
        self._parser = RequestParser(self, body_limit=0)  # drops what has come of the request
        table.budget.release(self._held)
        self._held = 0
        table.refused(error)
        exchange = RequestExchange(None, connection=self, completions=self._completions, budget=table.budget)
        exchange.response = error_response(error)
        self._waiting.append(exchange)
        self._start_more()
        self.moved_on()

    # --- the end ---

    def expire(self) -> None:
        """The deadline has passed."""
        if self._transport is None:
            return
        # A client that does not read its responses would not read a 408 either, and on a relayed connection a response
        # of HTTP/1.1 would be no valid frame.
        if self._full or self._state in (_ENDING, _RELAYED):
            self._transport.abort()
        elif self._parser.begun:
            part = "head" if self._parser.in_head else "body"
            self._refuse(RequestError(f"the {part} of the request took too long", reason="timeout", status=408))
        else:
            self._end(linger=False)

    def close_if_idle(self) -> None:
        """For the end of the worker: requests under way are finished first."""
        busy = self._parser.begun or self._running or self._waiting or self._state is _ENDING
        if self._transport is not None and not busy and self._state is not _RELAYED:  # gRPC ends its connections itself
            self._end(linger=False)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _end(self, *, linger: bool) -> None:
        """Close once everything is written; with `linger`, only our side, and read on until the client has closed."""
        self._state = _ENDING
        self._drop_requests()
        assert self._transport is not None  # noqa: S101
        if not linger or self._eof or self._transport.is_closing():
            # The transport closes when its buffer is empty; a client that does not read must not keep it open.
            self.deadline = self._table.now() + self._table.timeouts.writing
            self._transport.close()
            return
        if self._transport.can_write_eof():
            with suppress(OSError, RuntimeError):
                self._transport.write_eof()
        self.deadline = self._table.now() + self._table.timeouts.linger
        self._pause_or_resume_reading()

    def _drop_requests(self) -> None:
        """Nobody awaits the responses any more. Requests that are computed keep their bytes until that is done."""
        self._running.clear()
        while self._waiting:
            self._waiting.popleft().release()
        self._table.budget.release(self._held)
        self._held = 0

    # --- reading ---

    def _recognize(self, data: bytes) -> bytes:
        """What is to be parsed of bytes that come in any state but READING."""
        if self._state is not _NEW:
            return b""
        data = self._first + data
        if data in (b"P", b"PR"):  # the start of POST, or of HTTP/2's preface
            self._first = data
            return b""
        # RFC 9113 reserves the method PRI for the preface, so no request of HTTP/1.1 begins like this.
        if data.startswith(b"PRI"):
            self._relay(data)
            return b""
        self._state = _READING
        return data

    def _relay(self, data: bytes) -> None:
        assert self._transport is not None  # noqa: S101
        self._state = _RELAYED
        if not self._table.relay(self, self._transport, data):
            self._transport.close()

    def _pause_or_resume_reading(self) -> None:
        """Read only while all requests that have come can be worked on, and the client reads its responses."""
        if self._transport is None or self._transport.is_closing():
            return
        # At the end, what comes is read and dropped: unread bytes at close would make the kernel reset the connection,
        # and the client would lose the last response.
        pause = self._state is not _ENDING and (self._full or bool(self._waiting))
        if pause != self._paused:
            self._paused = pause
            if pause:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()
                # The client could not send while reading was paused, so its time for the awaited part begins anew.
                self.moved_on()
