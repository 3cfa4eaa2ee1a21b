"""One connection: bytes to requests, responses to bytes, in the order of the requests.

A client is trusted with nothing: slow ones are given up, and who does not read its answers is not read from either.
The token is looked at when the head of a request is there; without it, nothing that follows is read.
Requests may come before the answers to earlier ones; some of them are worked on at once, the others wait, and while any
wait, nothing more is read.

When something is refused in a way that leaves unclear where the next request begins, the connection ends: the answer
is sent, our side is closed, and what still comes is thrown away for a moment. Closing at once would make the kernel
reset the connection, and the client would never see the answer.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import suppress
from math import inf
from typing import cast

from clickline.net.request_errors import RequestError, refuse
from clickline.serve.http.connection_table import Front
from clickline.serve.http.exchange import Exchange
from clickline.serve.http.failure_log import log_failure
from clickline.serve.http.http_messages import CONTINUE, Request, Response, error_response, render
from clickline.serve.http.request_parser import Incoming

log = logging.getLogger("clickline.serve")
AT_ONCE = 16
"""Requests of one connection that are worked on at the same time."""
_WRITTEN_AHEAD = 256 << 10


class Connection(asyncio.Protocol):
    """Made by the acceptor, called by its transport and by what comes in. `deadline` is what the front looks at."""

    def __init__(self, front: Front) -> None:
        self._front = front
        self._transport: asyncio.Transport | None = None
        self._incoming = Incoming(self, body_limit=front.body_limit)
        self._running: deque[Exchange] = deque()
        self._waiting: deque[Exchange] = deque()
        self._first = b""
        self._spoken = self._deaf = self._secure = self._eof = self._ending = self._relayed = False
        self._full = self._paused = self._starting = self._owes_continue = self._authenticated = False
        self._held = 0
        self.deadline = inf

    # --- the transport's ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = made = cast(asyncio.Transport, transport)
        made.set_write_buffer_limits(high=_WRITTEN_AHEAD)
        self._secure = made.get_extra_info("ssl_object") is not None
        self.deadline = self._front.now() + self._front.timing.head
        if not self._front.admit(self, made.get_extra_info("peername")):
            self._refuse(self._front.full())

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._ending = True
        self._drop_requests()
        self._front.forget(self)

    def eof_received(self) -> bool:
        """A client that will say no more may still wait for answers; where TLS ends, both directions do."""
        self._eof = True
        return bool(self._running or self._waiting) and not self._ending and not self._secure

    def pause_writing(self) -> None:
        self._full = True
        self._look_after_reading()
        self.moved_on()

    def resume_writing(self) -> None:
        self._full = False
        self._start_more()
        self._look_after_reading()
        self.moved_on()

    def data_received(self, data: bytes) -> None:
        if self._deaf:
            return
        if not self._spoken:
            data = self._first + data
            if data in (b"P", b"PR"):  # the start of POST or of PRI
                self._first = data
                return
            self._spoken = True
            if data.startswith(b"PRI"):
                self._hand_over(data)
                return
        try:
            self._incoming.feed(data)
        except RequestError as error:
            self._refuse(error)
        except Exception as error:
            log_failure(log, "a connection failed", error)
            self._refuse(refuse("internal", "The server failed at this; its log says where."))
        if self._waiting:
            self._look_after_reading()

    # --- what comes in ---

    def moved_on(self) -> None:
        """Something else is waited for now: until when?"""
        if self._ending:
            return
        timing, incoming = self._front.timing, self._incoming
        if self._full:
            seconds = timing.writing
        elif incoming.begun:
            seconds = timing.head if incoming.in_head else timing.body
        else:
            seconds = inf if self._running or self._waiting else timing.idle
        self.deadline = self._front.now() + seconds

    def head(self, method: bytes, url: bytes, headers: dict[bytes, bytes], *, has_body: bool) -> None:
        authorised = self._front.authorised
        if authorised is None or not authorised(method, url, headers, has_body=has_body) or self._authenticated:
            return
        self._authenticated = True
        if not self._front.authenticated(self):
            raise self._front.full()

    def reserve(self, size: int) -> None:
        self._front.budget.take(size)
        self._held += size

    def told_to_expect(self) -> None:
        self._owes_continue = True
        self._pay_continue()

    def complete(self, request: Request) -> None:
        self._owes_continue = False
        front, held, self._held = self._front, self._held, 0
        exchange = Exchange(request, connection=self, mailbox=front.mailbox, budget=front.budget, held=held)
        if self._ending:
            exchange.let_go()
            return
        self._waiting.append(exchange)
        self._start_more()

    # --- answers ---

    def answered(self) -> None:
        """An exchange has its response; if it is the oldest, it can be sent."""
        running = self._running
        while running and (response := running[0].response) is not None:
            self._send(running.popleft(), response)
        if not self._starting and not self._ending:
            self._start_more()
            self._look_after_reading()

    def _start_more(self) -> None:
        if self._starting:  # we are in the loop below, further up
            return
        self._starting = True
        try:
            while self._waiting and len(self._running) < AT_ONCE and not self._full and not self._ending:
                exchange = self._waiting.popleft()
                self._running.append(exchange)
                if exchange.response is None:
                    self._front.handle(exchange)
                else:
                    self.answered()
        finally:
            self._starting = False

    def _send(self, exchange: Exchange, response: Response) -> None:
        front, request, transport = self._front, exchange.request, self._transport
        if transport is None or self._ending:
            return
        last = not self._running and not self._waiting
        keep = request is not None and request.keep_alive and not (last and (self._eof or front.draining))
        transport.write(
            render(
                response,
                date=front.clock.header,
                keep_alive=keep,
                modern=request is None or request.modern,
                head=request is not None and request.method == "HEAD",
            )
        )
        front.sent(exchange, response)
        if not keep:
            self._end(linger=request is None)
        elif last:
            self._pay_continue()
            self.moved_on()

    def _refuse(self, error: RequestError) -> None:
        """Say so, after the answers that are still due, and understand nothing more."""
        front = self._front
        self._deaf = True
        self._incoming = Incoming(self, body_limit=0)  # what has come of the request is not kept
        front.budget.release(self._held)
        self._held = 0
        front.refused(error)
        exchange = Exchange(None, connection=self, mailbox=front.mailbox, budget=front.budget)
        exchange.response = error_response(error)
        self._waiting.append(exchange)
        self._start_more()
        self.moved_on()

    # --- the end ---

    def expire(self) -> None:
        """The deadline has passed."""
        if self._transport is None:
            return
        if self._ending or self._full or self._relayed:
            self._transport.abort()
        elif self._incoming.begun:
            part = "head" if self._incoming.in_head else "body"
            self._refuse(RequestError(f"The {part} took too long to come.", reason="timeout", status=408))
        else:
            self._end(linger=False)

    def close_if_idle(self) -> None:
        """For the end of the server: requests under way are finished first."""
        busy = self._incoming.begun or self._running or self._waiting or self._ending
        if self._transport is not None and not busy and not self._relayed:  # gRPC ends its connections itself
            self._end(linger=False)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _end(self, *, linger: bool) -> None:
        self._ending = self._deaf = True
        self._drop_requests()
        assert self._transport is not None  # noqa: S101
        if not linger or self._eof or self._transport.is_closing():
            self.deadline = self._front.now() + self._front.timing.writing  # for who does not read the last answer
            self._transport.close()
            return
        if self._transport.can_write_eof():
            with suppress(OSError, RuntimeError):
                self._transport.write_eof()
        self.deadline = self._front.now() + self._front.timing.linger
        self._look_after_reading()

    def _drop_requests(self) -> None:
        """Nobody waits for the answers any more. Those that are worked on keep their bytes until they are there."""
        self._running.clear()
        while self._waiting:
            self._waiting.popleft().let_go()
        self._front.budget.release(self._held)
        self._held = 0

    # --- the rest ---

    def _look_after_reading(self) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        pause = not self._ending and (self._full or bool(self._waiting))
        if pause != self._paused:
            self._paused = pause
            if pause:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()
                self.moved_on()

    def _pay_continue(self) -> None:
        """The word that a client waits for is sent when the answers before it are."""
        if self._owes_continue and self._transport is not None and not self._running and not self._waiting:
            self._owes_continue = False
            self._transport.write(CONTINUE)

    def _hand_over(self, data: bytes) -> None:
        assert self._transport is not None  # noqa: S101
        self._deaf = self._relayed = True
        if not self._front.relay(self, self._transport, data):
            self._transport.close()
