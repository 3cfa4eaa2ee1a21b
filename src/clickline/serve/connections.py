"""One connection: bytes to requests, responses to bytes, in the order of the requests.

A client is trusted with nothing: heads and bodies have limits that are checked before anything is kept, slow ones are
given up, and who does not read its answers is not read from either. Requests may come before the answers to earlier
ones; some of them are worked on at once, the others wait, and while any wait, nothing more is read.

When something is refused in a way that leaves unclear where the next request begins, the connection ends: the answer
is sent, our side is closed, and what still comes is thrown away for a moment. Closing at once would make the kernel reset
the connection, and the client would never see the answer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from math import inf
from typing import Any, cast

import httptools

from clickline.serve.exchanges import Exchange
from clickline.serve.fronts import Front
from clickline.serve.messages import CONTINUE, Request, Response, error_response, render
from clickline.serve.requests import RequestError, refuse

AT_ONCE = 16
"""Requests of one connection that are worked on at the same time."""
MOST_HEADERS, LARGEST_HEAD, LONGEST_URL = 100, 32 << 10, 8 << 10
_WRITTEN_AHEAD = 256 << 10


class Connection(asyncio.Protocol):
    """Callbacks named `on_…` are the parser's, the rest the transport's. `deadline` is what the front looks at."""

    def __init__(self, front: Front) -> None:
        self._front = front
        self._transport: asyncio.Transport | None = None
        self._parser: Any = httptools.HttpRequestParser(self)
        self._running: deque[Exchange] = deque()
        self._waiting: deque[Exchange] = deque()
        self._first = b""
        self._spoken = self._begun = self._in_head = self._secure = False
        self._full = self._paused = self._starting = self._ending = self._eof = self._owes_continue = False
        self._fault: RequestError | None = None
        self._url, self._headers, self._body = b"", dict[bytes, bytes](), list[bytes]()
        self._message = self._head_size = self._body_size = 0
        self._modern = self._keep_alive = True
        self.deadline = inf

    # --- the transport's ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = made = cast(asyncio.Transport, transport)
        made.set_write_buffer_limits(high=_WRITTEN_AHEAD)
        self._secure = made.get_extra_info("ssl_object") is not None
        self.deadline = self._front.now() + self._front.timing.head
        if not self._front.admit(self):
            message = f"There are {self._front.most} connections already; try again, or use one for several requests."
            self._refuse(refuse("overloaded", message, 1.0))

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._ending = True
        self._running.clear()
        self._waiting.clear()
        self._front.forget(self)

    def eof_received(self) -> bool:
        self._eof = True
        return bool(self._running or self._waiting) and not self._ending and not self._secure

    def pause_writing(self) -> None:
        self._full = True
        self._look_after_reading()
        self._renew()

    def resume_writing(self) -> None:
        self._full = False
        self._start_more()
        self._look_after_reading()
        self._renew()

    def data_received(self, data: bytes) -> None:
        if self._ending or self._fault is not None:
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
        message = self._message
        while data:
            try:
                self._parser.feed_data(data)
                break
            except httptools.HttpParserUpgrade as upgrade:
                # To another protocol, which we may leave unanswered. The parser stops, a new one goes on.
                data = data[upgrade.args[0] :]
                self._parser = httptools.HttpRequestParser(self)
            except httptools.HttpParserError as error:
                known = self._fault or refuse("malformed", f"This is no HTTP request: {error}.")
                self._refuse(known)
                return
        if self._in_head and self._message == message:
            self._head_size += len(data)  # a header is told only when it ends, however long it is
            if self._head_size > LARGEST_HEAD:
                self._refuse(_head_too_large())
                return
        if self._waiting:
            self._look_after_reading()

    # --- the parser's ---

    def on_message_begin(self) -> None:
        self._begun = self._in_head = True
        self._message += 1
        self._url, self._headers, self._body = b"", {}, []
        self._head_size = self._body_size = 0
        self._renew()

    def on_url(self, url: bytes) -> None:
        self._url += url
        if len(self._url) > LONGEST_URL:
            self._stop(RequestError(f"URLs have at most {LONGEST_URL} bytes here.", reason="too_large", status=414))

    def on_header(self, name: bytes, value: bytes) -> None:
        headers = self._headers
        self._head_size += len(name) + len(value)
        if self._head_size > LARGEST_HEAD or len(headers) >= MOST_HEADERS:
            self._stop(_head_too_large())
        name = name.lower()
        headers[name] = headers[name] + b", " + value if name in headers else value

    def on_headers_complete(self) -> None:
        self._in_head = False
        headers, version = self._headers, self._parser.get_http_version()
        if version not in ("1.1", "1.0"):
            self._stop(RequestError(f"HTTP/{version} is not spoken here.", reason="malformed", status=505))
        self._modern = version == "1.1"
        if self._modern and b"host" not in headers:
            self._stop(refuse("malformed", "HTTP/1.1 needs the header Host."))
        said = headers.get(b"connection")
        self._keep_alive = self._modern if said is None else _keeps(said.lower(), self._modern)
        length = headers.get(b"content-length")
        if length is not None and int(length) > self._front.body_limit:
            self._stop(self._too_large(int(length)))
        expected = headers.get(b"expect")
        if expected is not None and self._modern:
            if expected.lower() != b"100-continue":
                self._stop(RequestError("Expect: only 100-continue can be.", reason="malformed", status=417))
            self._owes_continue = True
            self._pay_continue()
        if length is not None or b"transfer-encoding" in headers:
            self._renew()

    def on_body(self, body: bytes) -> None:
        self._owes_continue = False
        self._body_size += len(body)
        if self._body_size > self._front.body_limit:
            self._stop(self._too_large(self._body_size))
        self._body.append(body)

    def on_message_complete(self) -> None:
        self._begun = self._owes_continue = False
        path, _, query = self._url.partition(b"?")
        body = self._body
        request = Request(
            method=self._parser.get_method().decode("latin-1"),
            path=path.decode("latin-1"),
            query=query,
            headers=self._headers,
            body=body[0] if len(body) == 1 else b"".join(body),
            keep_alive=self._keep_alive,
            modern=self._modern,
        )
        self._waiting.append(Exchange(request, connection=self, mailbox=self._front.mailbox))
        self._start_more()

    # --- answers ---

    def answered(self) -> None:
        """An exchange has its response; if it is the oldest, it can be sent."""
        running = self._running
        while running and (response := running[0].response) is not None and not self._ending:
            self._send(running.popleft(), response)
        if not self._starting and not self._ending:
            self._start_more()
            self._look_after_reading()

    def expire(self) -> None:
        """The deadline has passed."""
        if self._transport is None:
            return
        if self._ending or self._full:
            self._transport.abort()
        elif self._begun:
            part = "head" if self._in_head else "body"
            message = f"The request's {part} took too long to come."
            self._refuse(RequestError(message, reason="timeout", status=408))
        else:
            self._transport.close()

    def close_if_idle(self) -> None:
        """For the end of the server: requests under way are finished first."""
        if self._transport is not None and not (self._begun or self._running or self._waiting or self._ending):
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

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
        if transport is None:
            return
        last = not self._running and not self._waiting
        keep = (
            request is not None
            and request.keep_alive
            and not response.close
            and not (last and (self._eof or front.draining))
        )
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
            self._end(linger=response.close)
        elif last:
            self._pay_continue()
            self._renew()

    def _end(self, *, linger: bool) -> None:
        self._ending = True
        self._waiting.clear()
        self._running.clear()
        assert self._transport is not None  # noqa: S101
        if not linger or self._eof or self._transport.is_closing():
            self._transport.close()
            return
        if self._transport.can_write_eof():
            with suppress(OSError, RuntimeError):
                self._transport.write_eof()
        self.deadline = self._front.now() + self._front.timing.linger
        self._look_after_reading()

    def _refuse(self, error: RequestError) -> None:
        """Say so, after the answers that are still due, and read no further request."""
        self._fault = error
        self._front.refused(error)
        exchange = Exchange(None, connection=self, mailbox=self._front.mailbox)
        exchange.response = error_response(error, close=True)
        self._begun = False
        self._waiting.append(exchange)
        self._start_more()

    def _stop(self, error: RequestError) -> None:
        """Within the parser: it stops at an exception, and `data_received` refuses."""
        self._fault = error
        raise error

    # --- the rest ---

    def _renew(self) -> None:
        """What is being waited for, and until when."""
        timing = self._front.timing
        if self._ending:
            return
        if self._full:
            seconds = timing.writing
        elif self._begun:
            seconds = timing.head if self._in_head else timing.body
        else:
            seconds = inf if self._running or self._waiting else timing.idle
        self.deadline = self._front.now() + seconds

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
                self._renew()

    def _pay_continue(self) -> None:
        if self._owes_continue and self._transport is not None and not self._running and not self._waiting:
            self._owes_continue = False
            self._transport.write(CONTINUE)

    def _hand_over(self, data: bytes) -> None:
        assert self._transport is not None  # noqa: S101
        self.deadline = inf
        if not self._front.relay(self, self._transport, data):
            self._transport.close()

    def _too_large(self, size: int) -> RequestError:
        limit = self._front.body_limit
        return refuse("too_large", f"A body of {size} bytes is too large, the limit is {limit}; send fewer rows at once.")


def _head_too_large() -> RequestError:
    message = f"Heads have at most {LARGEST_HEAD} bytes and {MOST_HEADERS} headers here."
    return RequestError(message, reason="too_large", status=431)


def _keeps(said: bytes, modern: bool) -> bool:
    words = [word.strip() for word in said.split(b",")]
    return b"close" not in words if modern else b"keep-alive" in words
