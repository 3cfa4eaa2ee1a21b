"""Requests and responses of HTTP/1.1 as plain objects, and the bytes of a response.

One of each is created for every prediction, so they hold what is needed and compute nothing early. Header names are
lower case bytes, as they come from the parser. A body that was sent compressed is unpacked when it is used, never to
more than the limit: a few bytes can unpack to gigabytes.
"""

from __future__ import annotations

import time
import zlib
from email.utils import formatdate
from http import HTTPStatus
from math import ceil

import msgspec

from clickline.net.request_errors import RequestError, refuse

JSON, TEXT, HTML = b"application/json", b"text/plain; charset=utf-8", b"text/html; charset=utf-8"
Headers = tuple[tuple[bytes, bytes], ...]
_BODILESS = (204, 304)
_CLIENT_ERRORS = range(400, 429)
_GZIP = zlib.MAX_WBITS | 16
_STATUS = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
encode_json = msgspec.json.Encoder().encode


class Request:
    """A complete request."""

    __slots__ = ("_body", "headers", "keep_alive", "method", "modern", "path", "query")

    def __init__(
        self,
        *,
        method: str,
        path: str,
        query: bytes,
        headers: dict[bytes, bytes],
        body: bytes,
        keep_alive: bool,
        modern: bool,
    ) -> None:
        self.method, self.path, self.query, self.headers = method, path, query, headers
        self.keep_alive = keep_alive
        self.modern = modern
        """HTTP/1.1: the connection stays open unless the client says otherwise. False: HTTP/1.0."""
        self._body = body

    def body(self, *, limit: int) -> bytes:
        """The body as it was before compression. Raises RequestError if it cannot be unpacked within `limit` bytes."""
        coding = self.headers.get(b"content-encoding")
        if coding is None or coding.lower() == b"identity":
            return self._body
        if coding.lower() not in (b"gzip", b"x-gzip"):
            named = coding.decode("latin-1")[:40]
            raise RequestError(
                f"Content-Encoding {named!r} is not supported; send gzip, or the body as it is",
                reason="malformed",
                status=415,
            )
        return unzipped(self._body, limit=limit)

    def drop_body(self) -> None:
        self._body = b""


class Response:
    """A response, complete before any of it is sent."""

    __slots__ = ("body", "content_type", "headers", "status")

    def __init__(
        self,
        status: int,
        body: bytes = b"",
        *,
        content_type: bytes = JSON,
        headers: Headers = (),
    ) -> None:
        self.status, self.body, self.content_type, self.headers = status, body, content_type, headers


class DateHeader:
    """The Date header line, formatted once a second."""

    def __init__(self) -> None:
        self.line = b""
        self.tick()

    def tick(self) -> None:
        self.line = b"Date: " + formatdate(time.time(), usegmt=True).encode() + b"\r\n"


def json_response(value: object, *, status: int = 200, headers: Headers = ()) -> Response:
    return Response(status, encode_json(value), headers=headers)


def error_response(error: RequestError, *, headers: Headers = ()) -> Response:
    """An error in the common shape, which all protocols but ElasticCTR's and Paddle Serving's use."""
    content: dict[str, object] = {"error": str(error), "reason": error.reason}
    if error.mistakes:
        content["mistakes"] = [{"reason": reason, "error": message} for reason, message in error.mistakes]
    body = encode_json(content)
    if error.status == 401:
        headers = ((b"WWW-Authenticate", b"Bearer"), *headers)
    return Response(error.status, body, headers=retry_headers(error) + headers)


def error_in_body(error: RequestError, body: bytes) -> Response:
    """An error of a protocol that reports mistakes of the client in a body of its own, with status 200.

    Overload and failures of the server keep their status: a proxy in between must be able to see them.
    """
    status = 200 if error.status in _CLIENT_ERRORS else error.status
    return Response(status, body, headers=retry_headers(error))


def retry_headers(error: RequestError) -> Headers:
    """Retry-After in whole seconds, at least one: it has no fractions."""
    if error.retry_after is None:
        return ()
    return ((b"Retry-After", b"%d" % max(1, ceil(error.retry_after))),)


def render(response: Response, *, date: bytes, keep_alive: bool, modern: bool = True, head: bool = False) -> bytes:
    """The bytes to send. With `head`, without the body, but with its length."""
    parts = [_STATUS[response.status], date]
    if response.status not in _BODILESS:
        parts.append(b"Content-Type: %b\r\nContent-Length: %d\r\n" % (response.content_type, len(response.body)))
    for name, value in response.headers:
        parts.append(b"%b: %b\r\n" % (name, value))
    if not keep_alive:
        parts.append(b"Connection: close\r\n\r\n")
    elif not modern:
        parts.append(b"Connection: keep-alive\r\n\r\n")
    else:
        parts.append(b"\r\n")
    if not head and response.status not in _BODILESS:
        parts.append(response.body)
    return b"".join(parts)


def unzipped(body: bytes, *, limit: int) -> bytes:
    """Unpack gzip of one or several members. Raises RequestError if it is damaged, truncated or too large."""
    unpacked, rest = bytearray(), body
    while rest:
        member = zlib.decompressobj(_GZIP)
        try:
            # One byte more than allowed: enough to see that it is too much, and never a byte beyond that in memory.
            # The limit is never 0 here, which zlib would take for none.
            unpacked += member.decompress(rest, limit + 1 - len(unpacked))
        except zlib.error as error:
            raise refuse("malformed", f"the body is not gzip, as Content-Encoding says: {error}") from None
        if len(unpacked) > limit:
            raise refuse("too_large", f"the body unpacks to more than {limit} bytes; send fewer rows at once")
        if not member.eof:
            raise refuse("malformed", "the body is gzip that ends too early")
        rest = member.unused_data
    return bytes(unpacked)
