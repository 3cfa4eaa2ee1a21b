"""Requests out of bytes, with limits that are checked before anything is kept.

The parser is httptools', which calls back for every part of a request; an exception in a callback stops it. Whatever is
wrong leaves `feed` as a RequestError, and after that it is not known where the next request would begin.
"""

from __future__ import annotations

from typing import Any, NoReturn, Protocol

import httptools

from clickline.serve.messages import Request
from clickline.serve.requests import RequestError, refuse

_OFFER = (b"upgrade", b"connection", b"http2-settings", b"expect")
MOST_HEADERS, LARGEST_HEAD, LONGEST_URL = 100, 32 << 10, 8 << 10


class Listening(Protocol):
    """Who wants to know."""

    def moved_on(self) -> None:
        """A request has begun, or its head is complete: another part is waited for now."""

    def told_to_expect(self) -> None:
        """The client waits for our word before it sends the body."""

    def complete(self, request: Request) -> None: ...


class Incoming:
    """The requests of one connection. Methods named `on_…` are the parser's."""

    def __init__(self, listening: Listening, *, body_limit: int) -> None:
        self._listening, self._body_limit = listening, body_limit
        self._parser: Any = httptools.HttpRequestParser(self)
        self._fault: RequestError | None = None
        self._url, self._headers, self._body = b"", dict[bytes, bytes](), list[bytes]()
        self._message = self._head_size = self._body_size = 0
        self._modern = self._keep_alive = True
        self._has_body = False
        self._unoffered = b""
        self.begun = self.in_head = False
        """Whether part of a request has come, and whether that is less than its head."""

    def feed(self, data: bytes) -> None:
        """What has come. Raises RequestError."""
        message = self._message
        while data:
            try:
                self._parser.feed_data(data)
                break
            except httptools.HttpParserUpgrade as upgrade:
                # An offer to speak another protocol, which we may ignore. The parser stops there; a new one goes on.
                data = self._unoffered + data[upgrade.args[0] :]
                self._unoffered = b""
                self._parser = httptools.HttpRequestParser(self)
            except httptools.HttpParserCallbackError as error:
                raise self._fault or error.__context__ or error from None
            except httptools.HttpParserError as error:
                raise refuse("malformed", f"This is no HTTP request: {error}.") from None
        if self.in_head and self._message == message:
            self._head_size += len(data)  # a header is told only when it ends, however long it is
            if self._head_size > LARGEST_HEAD:
                raise _head_too_large()

    def on_message_begin(self) -> None:
        self.begun = self.in_head = True
        self._message += 1
        self._url, self._headers, self._body = b"", {}, []
        self._head_size = self._body_size = 0
        self._listening.moved_on()

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
        self.in_head = False
        headers, version = self._headers, self._parser.get_http_version()
        if version not in ("1.1", "1.0"):
            self._stop(RequestError(f"HTTP/{version} is not spoken here.", reason="malformed", status=505))
        self._modern = version == "1.1"
        if self._modern and b"host" not in headers:
            self._stop(refuse("malformed", "HTTP/1.1 needs the header Host."))
        said = headers.get(b"connection")
        self._keep_alive = self._modern if said is None else _keeps(said.lower(), self._modern)
        length = headers.get(b"content-length")
        if length is not None and int(length) > self._body_limit:
            self._stop(self._too_large(int(length)))
        expected = headers.get(b"expect")
        if expected is not None and self._modern:
            if expected.lower() != b"100-continue":
                self._stop(RequestError("Expect: only 100-continue can be.", reason="malformed", status=417))
            self._listening.told_to_expect()
        self._has_body = b"transfer-encoding" in headers or (length is not None and int(length) > 0)
        if self._has_body:
            self._listening.moved_on()

    def on_body(self, body: bytes) -> None:
        self._body_size += len(body)
        if self._body_size > self._body_limit:
            self._stop(self._too_large(self._body_size))
        self._body.append(body)

    def on_message_complete(self) -> None:
        if self._has_body and self._parser.should_upgrade():  # the parser leaves it to the other protocol
            self._unoffered = self._head_without_offer()
            return
        self.begun = False
        path, _, query = self._url.partition(b"?")
        body = self._body
        self._listening.complete(
            Request(
                method=self._parser.get_method().decode("latin-1"),
                path=path.decode("latin-1"),
                query=query,
                headers=self._headers,
                body=body[0] if len(body) == 1 else b"".join(body),
                keep_alive=self._keep_alive,
                modern=self._modern,
            )
        )

    def _head_without_offer(self) -> bytes:
        """As some clients make the offer with every request, also one with a body: the same without it."""
        kept = {name: value for name, value in self._headers.items() if name not in _OFFER}
        if not self._keep_alive:
            kept[b"connection"] = b"close"
        lines = [b"%b: %b\r\n" % pair for pair in kept.items()]
        return b"%b %b HTTP/1.1\r\n%b\r\n" % (self._parser.get_method(), self._url, b"".join(lines))

    def _stop(self, error: RequestError) -> NoReturn:
        """The parser wraps what a callback raises, so it is kept aside."""
        self._fault = error
        raise error

    def _too_large(self, size: int) -> RequestError:
        limit = self._body_limit
        return refuse(
            "too_large", f"A body of {size} bytes is too large, the limit is {limit}; send fewer rows at once."
        )


def _head_too_large() -> RequestError:
    message = f"Heads have at most {LARGEST_HEAD} bytes and {MOST_HEADERS} headers here."
    return RequestError(message, reason="too_large", status=431)


def _keeps(said: bytes, modern: bool) -> bool:
    words = [word.strip() for word in said.split(b",")]
    return b"close" not in words if modern else b"keep-alive" in words
