"""Requests out of bytes, with limits that are checked before anything is kept.

The parser is httptools', which calls back for every part of a request; an exception in a callback stops it. Whatever is
wrong leaves `feed` as a RequestError, and after that it is not known where the next request would begin.

When the head of a request is complete, the listener is asked whether the rest may come: until then no byte of a body
is kept. Lines and bytes of a head are counted as they come, whatever names they have. Trailers of a chunked body are
counted in the same way and then dropped: a proxy in front has not looked at them, so they must not become headers.
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


class Listening(Protocol):
    """Who wants to know."""

    def moved_on(self) -> None:
        """A request has begun, or its head is complete: another part is waited for now."""

    def head(self, method: bytes, url: bytes, headers: dict[bytes, bytes], *, has_body: bool) -> None:
        """A head is complete. Raises RequestError if nothing of its body is to be read."""

    def reserve(self, size: int) -> None:
        """So many more bytes of a body are about to be kept. Raises RequestError if there is no room."""

    def told_to_expect(self) -> None:
        """The client waits for our word before it sends the body."""

    def complete(self, request: Request) -> None: ...


class Incoming:
    """The requests of one connection. Methods named `on_…` are the parser's."""

    def __init__(self, listening: Listening, *, body_limit: int) -> None:
        self._listening, self._body_limit = listening, body_limit
        self._parser: Any = httptools.HttpRequestParser(self)
        self._fault: RequestError | None = None
        self._method, self._url, self._headers = b"", b"", dict[bytes, bytes]()
        self._body = b""
        self._pieces: BytesIO | None = None
        self._message = self._lines = self._told = self._fed = self._body_size = self._reserved = 0
        self._modern = self._keep_alive = True
        self._has_body = self._offers = self._offer_removed = False
        self._unoffered = b""
        self.begun = self.in_head = False
        """Whether part of a request has come, and whether that is less than its head."""

    def feed(self, data: bytes) -> None:
        """What has come. Raises RequestError."""
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
                # An offer to speak another protocol, which we may ignore. The parser stops there; a new one goes on.
                data = self._unoffered + data[upgrade.args[0] :]
                self._unoffered = b""
                self._parser = httptools.HttpRequestParser(self)
            except httptools.HttpParserCallbackError as error:
                raise self._fault or error.__context__ or error from None
            except httptools.HttpParserError as error:
                raise refuse("malformed", f"This is no HTTP request: {error}.") from None
        if self.begun and self._message == message and (self.in_head or self._body_size == body_size):
            # A header is told only when it ends, however long it is; that also goes for trailers and chunk extensions.
            self._fed += len(data)
            if self._fed > LARGEST_HEAD:
                raise _head_too_large()

    def on_message_begin(self) -> None:
        self.begun = self.in_head = True
        self._message += 1
        self._url, self._headers, self._body, self._pieces = b"", {}, b"", None
        self._lines = self._told = self._fed = self._body_size = self._reserved = 0
        self._listening.moved_on()

    def on_url(self, url: bytes) -> None:
        self._url += url
        if len(self._url) > LONGEST_URL:
            self._stop(RequestError(f"URLs have at most {LONGEST_URL} bytes here.", reason="too_large", status=414))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._lines = lines = self._lines + 1
        self._told = size = self._told + len(name) + len(value) + _PUNCTUATION
        if size > LARGEST_HEAD or lines > MOST_HEADERS:
            self._stop(_head_too_large())
        if not self.in_head:  # a trailer
            return
        headers, name = self._headers, name.lower()
        if name in headers:
            if name == b"host":
                self._stop(refuse("malformed", "There are two headers Host."))
            value = headers[name] + b", " + value
        headers[name] = value

    def on_headers_complete(self) -> None:
        self.in_head = False
        self._told = self._fed = 0
        parser, headers = self._parser, self._headers
        version, method = parser.get_http_version(), parser.get_method()
        self._method = method
        if version not in ("1.1", "1.0"):
            self._stop(RequestError(f"HTTP/{version} is not spoken here.", reason="malformed", status=505))
        self._modern = version == "1.1"
        if self._modern and b"host" not in headers:
            self._stop(refuse("malformed", "HTTP/1.1 needs the header Host."))
        if method == b"CONNECT":  # to the parser, what follows is another protocol, whatever the headers say
            self._stop(RequestError("CONNECT: this is no proxy.", reason="wrong_method", status=501))
        self._offers = b"upgrade" in headers and parser.should_upgrade()
        if self._offers:
            self._look_at_offer(headers[b"upgrade"])
        said = headers.get(b"connection")
        self._keep_alive = self._modern if said is None else _keeps(said.lower(), self._modern)
        given, coding = headers.get(b"content-length"), headers.get(b"transfer-encoding")
        length = 0 if given is None else int(given)
        self._has_body = length > 0 or coding is not None
        try:
            self._listening.head(method, self._url, headers, has_body=self._has_body)
            if coding is not None and (coding.lower() != b"chunked" or not self._modern):
                what = f"Transfer-Encoding: only chunked is understood, and only in HTTP/1.1; not {_shown(coding)}."
                raise RequestError(what, reason="malformed", status=501 if self._modern else 400)
            if length > self._body_limit:
                raise self._too_large(length)
            if length and not self._offers:  # else the head comes once more
                self._listening.reserve(length)
                self._reserved = length
        except RequestError as error:
            self._stop(error)
        expected = headers.get(b"expect")
        if expected is not None and self._modern:
            if expected.lower() != b"100-continue":
                self._stop(RequestError("Expect: only 100-continue can be.", reason="malformed", status=417))
            self._listening.told_to_expect()
        if self._has_body:
            self._listening.moved_on()

    def on_body(self, body: bytes) -> None:
        self._body_size += len(body)
        if self._body_size > self._reserved:  # in chunks: how many there will be is not known
            if self._body_size > self._body_limit:
                self._stop(self._too_large(self._body_size))
            try:
                self._listening.reserve(self._body_size - self._reserved)
            except RequestError as error:
                self._stop(error)
            self._reserved = self._body_size
        if self._body_size == len(body):
            self._body = body  # most bodies come in one piece, which is then not copied
            return
        if self._pieces is None:  # one buffer, however many pieces, and its value is not a copy of it
            self._pieces = BytesIO()
            self._pieces.write(self._body)
            self._body = b""
        self._pieces.write(body)

    def on_message_complete(self) -> None:
        if self._has_body and self._offers:  # the parser leaves the body to the other protocol
            if self._offer_removed:
                self._stop(refuse("malformed", "This offers another protocol in a way that is not understood."))
            self._unoffered = self._head_without_offer()
            self._offer_removed = True
            return
        self.begun = self._offer_removed = False
        path, _, query = self._url.partition(b"?")
        self._listening.complete(
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
        self._body, self._pieces = b"", None

    def _look_at_offer(self, offered: bytes) -> None:
        """Some clients offer HTTP/2 with every request, which may be ignored. Nobody offers us anything else."""
        if any(word.strip().lower() != b"h2c" for word in offered.split(b",")):
            self._stop(
                refuse("malformed", f"Upgrade: {_shown(offered)} is not spoken here; only HTTP/1.1 and gRPC are.")
            )

    def _head_without_offer(self) -> bytes:
        """As some clients make the offer with every request, also one with a body: the same without it."""
        kept = {name: value for name, value in self._headers.items() if name not in _OFFER}
        if not self._keep_alive:
            kept[b"connection"] = b"close"
        lines = [b"%b: %b\r\n" % pair for pair in kept.items()]
        version = b"1.1" if self._modern else b"1.0"
        return b"%b %b HTTP/%b\r\n%b\r\n" % (self._method, self._url, version, b"".join(lines))

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


def _shown(value: bytes) -> str:
    """A header's value in a message: not too long, nothing but printable characters."""
    return ascii(value[:40].decode("latin-1"))
