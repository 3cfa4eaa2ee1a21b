"""The parser of HTTP/1.1 requests, with limits that are checked before anything is kept.

The tokens come from httptools, which calls back for every part of a request; an exception in a callback stops it. Every
mistake leaves `feed` as a RequestError, and after that it is not known where the next request would begin.

When the head of a request is complete, the connection is asked whether the rest may come: until then no byte of a body
is kept. Lines and bytes of a head are counted as they come, whatever names they have. Trailers of a chunked body are
counted in the same way and then dropped: a proxy in front has not checked them, so they must not become headers.
"""

from __future__ import annotations

from io import BytesIO
from typing import Any, NoReturn, Protocol

import httptools

from clickline.net.request_errors import RequestError, refuse
from clickline.serve.http.http_messages import Request

_OFFER = (b"upgrade", b"connection", b"http2-settings", b"expect")
_PUNCTUATION = 4
"""Bytes of a header line beside its name and value: colon, space, end of line."""
MOST_HEADERS, LARGEST_HEAD, LONGEST_URL = 100, 32 << 10, 8 << 10


class ParserEvents(Protocol):
    """The connection, as its parser sees it."""

    def moved_on(self) -> None:
        """A request has begun, or its head is complete: another part is awaited now."""

    def head(self, method: bytes, url: bytes, headers: dict[bytes, bytes], *, has_body: bool) -> None:
        """A head is complete. Raises RequestError if nothing of its body is to be read."""

    def reserve(self, size: int) -> None:
        """So many more bytes of a body are about to be kept. Raises RequestError if there is no room."""

    def continue_expected(self) -> None:
        """The client waits for 100 Continue before it sends the body."""

    def complete(self, request: Request) -> None: ...


class RequestParser:
    """Finds the requests in the bytes of one connection. httptools calls the methods named `on_…`."""

    def __init__(self, events: ParserEvents, *, body_limit: int) -> None:
        self._events, self._body_limit = events, body_limit
        self._parser: Any = httptools.HttpRequestParser(self)
        self._fault: RequestError | None = None
        self._method, self._url, self._headers = b"", b"", dict[bytes, bytes]()
        self._body = b""
        self._pieces: BytesIO | None = None
        self._message = self._lines = self._header_bytes = self._fed = self._body_size = self._reserved = 0
        """_message: number of the request; _lines and _header_bytes: of its head, or of its trailers, so far; _fed:
        bytes that were fed without any callback."""
        self._modern = self._keep_alive = True
        self._has_body = self._offers = self._offer_removed = False
        """_offers: the request offers another protocol (Upgrade)."""
        self._unoffered = b""
        """The head of a request without its offer, to be parsed again."""
        self.begun = self.in_head = False
        """Whether part of a request has come, and whether that is less than its head."""

    def feed(self, data: bytes) -> None:
        """Parse what has come. Raises RequestError."""
        if len(data) <= LARGEST_HEAD:
            self._feed(data)
            return
        for start in range(0, len(data), LARGEST_HEAD):  # so that no head is much longer than it may be
            self._feed(data[start : start + LARGEST_HEAD])

    def _feed(self, data: bytes) -> None:
        message, body_size = self._message, self._body_size
        while data:
            try:
                self._parser.feed_data(data)
                break
            except httptools.HttpParserUpgrade as upgrade:
                # An offer to speak another protocol, which a server may ignore. httptools stops there; a new parser
                # goes on with the rest, preceded by the same head without the offer if the request has a body:
                # httptools would leave that body to the other protocol.
                data = self._unoffered + data[upgrade.args[0] :]
                self._unoffered = b""
                self._parser = httptools.HttpRequestParser(self)
            except httptools.HttpParserCallbackError as error:
                raise self._fault or error.__context__ or error from None
            except httptools.HttpParserError as error:
                raise refuse("malformed", f"not an HTTP request: {error}") from None
        if self.begun and self._message == message and (self.in_head or self._body_size == body_size):
            # httptools calls back only when a header ends, however long it is; the same goes for trailers and chunk
            # extensions. So bytes that have led to no callback are counted here.
            self._fed += len(data)
            if self._fed > LARGEST_HEAD:
                raise _head_too_large()

    def on_message_begin(self) -> None:
        self.begun = self.in_head = True
        self._message += 1
        self._url, self._headers, self._body, self._pieces = b"", {}, b"", None
        self._lines = self._header_bytes = self._fed = self._body_size = self._reserved = 0
        self._events.moved_on()

    def on_url(self, url: bytes) -> None:
        self._url += url
        if len(self._url) > LONGEST_URL:
            self._stop(RequestError(f"the URL is longer than {LONGEST_URL} bytes", reason="too_large", status=414))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._lines = lines = self._lines + 1
        self._header_bytes = size = self._header_bytes + len(name) + len(value) + _PUNCTUATION
        if size > LARGEST_HEAD or lines > MOST_HEADERS:
            self._stop(_head_too_large())
        if not self.in_head:  # a trailer
            return
        headers, name = self._headers, name.lower()
        if name in headers:
            # RFC 9112 demands 400: a proxy in front may have routed by the other one.
            if name == b"host":
                self._stop(refuse("malformed", "there are two headers Host"))
            value = headers[name] + b", " + value
        headers[name] = value

    def on_headers_complete(self) -> None:
        self.in_head = False
        # Trailers have a byte count of their own; `_lines` goes on, so MOST_HEADERS is for both together.
        self._header_bytes = self._fed = 0
        parser, headers = self._parser, self._headers
        version, method = parser.get_http_version(), parser.get_method()
        self._method = method
        if version not in ("1.1", "1.0"):
            self._stop(RequestError(f"HTTP/{version} is not supported; use HTTP/1.1", reason="malformed", status=505))
        self._modern = version == "1.1"
        if self._modern and b"host" not in headers:
            self._stop(refuse("malformed", "HTTP/1.1 needs the header Host"))
        if method == b"CONNECT":  # to httptools, what follows is another protocol, whatever the headers say
            self._stop(RequestError("CONNECT is not supported: this is not a proxy", reason="wrong_method", status=501))
        self._offers = b"upgrade" in headers and parser.should_upgrade()
        if self._offers:
            self._check_offer(headers[b"upgrade"])
        options = headers.get(b"connection")
        self._keep_alive = self._modern if options is None else _keeps_alive(options.lower(), self._modern)
        # httptools has refused lengths that are not numbers, two lengths, and a length beside chunks.
        given, coding = headers.get(b"content-length"), headers.get(b"transfer-encoding")
        length = 0 if given is None else int(given)
        self._has_body = length > 0 or coding is not None
        # The connection's own check comes first: a client without the token learns nothing about limits.
        try:
            self._events.head(method, self._url, headers, has_body=self._has_body)
            if coding is not None and (coding.lower() != b"chunked" or not self._modern):
                what = f"Transfer-Encoding must be chunked, and HTTP/1.1; got {_shown(coding)}"
                raise RequestError(what, reason="malformed", status=501 if self._modern else 400)
            if length > self._body_limit:
                raise self._too_large(length)
            if length and not self._offers:  # else the head is parsed once more, and reserves then
                self._events.reserve(length)
                self._reserved = length
        except RequestError as error:
            self._stop(error)
        expected = headers.get(b"expect")
        if expected is not None and self._modern:
            if expected.lower() != b"100-continue":
                self._stop(RequestError("Expect must be 100-continue", reason="malformed", status=417))
            self._events.continue_expected()
        if self._has_body:
            self._events.moved_on()

    def on_body(self, body: bytes) -> None:
        self._body_size += len(body)
        if self._body_size > self._reserved:  # sent in chunks: the size of all is not known
            if self._body_size > self._body_limit:
                self._stop(self._too_large(self._body_size))
            try:
                self._events.reserve(self._body_size - self._reserved)
            except RequestError as error:
                self._stop(error)
            self._reserved = self._body_size
        if self._body_size == len(body):
            self._body = body  # most bodies come in one piece, which is then not copied
            return
        if self._pieces is None:  # one buffer, however many pieces; getvalue does not copy it
            self._pieces = BytesIO()
            self._pieces.write(self._body)
            self._body = b""
        self._pieces.write(body)

    def on_message_complete(self) -> None:
        if self._has_body and self._offers:  # httptools leaves the body to the other protocol: parse it again
            # If the head without its offer is taken for an offer again, parsing it once more would never end.
            if self._offer_removed:
                self._stop(
                    refuse("malformed", "the request offers another protocol (Upgrade) in a way that is not understood")
                )
            self._unoffered = self._head_without_offer()
            self._offer_removed = True
            return
        self.begun = self._offer_removed = False
        path, _, query = self._url.partition(b"?")
        self._events.complete(
            Request(
                method=self._method.decode("latin-1"),
                path=path.decode("latin-1"),
                query=query,
                headers=self._headers,
                body=self._body if self._pieces is None else self._pieces.getvalue(),
                keep_alive=self._keep_alive,
                modern=self._modern,
            )
        )
        # The request has the body; a reference here would keep it until the next request begins.
        self._body, self._pieces = b"", None

    def _check_offer(self, offered: bytes) -> None:
        """Some clients offer HTTP/2 with every request, which may be ignored; no other protocol is."""
        if any(word.strip().lower() != b"h2c" for word in offered.split(b",")):
            self._stop(refuse("malformed", f"Upgrade to {_shown(offered)} is not supported; use HTTP/1.1 or gRPC"))

    def _head_without_offer(self) -> bytes:
        """The head that was parsed, without the headers of the offer."""
        # Without Expect too: `continue_expected` was called when the head was parsed first.
        kept = {name: value for name, value in self._headers.items() if name not in _OFFER}
        if not self._keep_alive:
            kept[b"connection"] = b"close"
        lines = [b"%b: %b\r\n" % pair for pair in kept.items()]
        version = b"1.1" if self._modern else b"1.0"
        return b"%b %b HTTP/%b\r\n%b\r\n" % (self._method, self._url, version, b"".join(lines))

    def _stop(self, error: RequestError) -> NoReturn:
        """httptools wraps what a callback raises; `_feed` raises the error itself."""
        self._fault = error
        raise error

    def _too_large(self, size: int) -> RequestError:
        limit = self._body_limit
        return refuse(
            "too_large", f"a body of {size} bytes is too large, the limit is {limit}; send fewer rows at once"
        )


def _head_too_large() -> RequestError:
    message = f"the head is too large: at most {LARGEST_HEAD} bytes and {MOST_HEADERS} headers are read"
    return RequestError(message, reason="too_large", status=431)


def _keeps_alive(options: bytes, modern: bool) -> bool:
    words = [word.strip() for word in options.split(b",")]
    return b"close" not in words if modern else b"keep-alive" in words


def _shown(value: bytes) -> str:
    """A header's value in a message: not too long, nothing but printable characters."""
    return ascii(value[:40].decode("latin-1"))
