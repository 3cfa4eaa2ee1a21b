"""HTTP of all clients of a predictor: addresses, the bytes of requests, parsing of replies.

Nothing here reads or writes a socket, so the sync client, the async client and the load generator cannot differ in what
they send or how they read a reply.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

import httptools
import msgspec

from clickline import __version__
from clickline.errors import PeerError
from clickline.net.predictor_documents import PredictionServerStatus
from clickline.net.request_errors import RequestError

MOST_BYTES = 256 * 1024 * 1024
"""Largest reply; a predictor sends no larger ones."""
_PORTS = {"http": 80, "https": 443}


class LostConnection(PeerError):
    """Raised when the server cannot be reached, or the connection is lost before the reply; a retry may succeed."""


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """The address of a predictor."""

    host: str
    port: int
    secure: bool
    path: str
    """Prefix of every path, for a predictor behind a gateway; usually empty."""

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{'https' if self.secure else 'http'}://{self.authority}{self.path}"


def address_of(url: str) -> ServerAddress:
    """The parts of http://HOST[:PORT][/PATH]; without a scheme it is http."""
    expected = "write http://HOST:PORT, such as http://127.0.0.1:8010"
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme not in _PORTS:
        raise PeerError(f"{url!r} is not the address of a predictor: its scheme is {parts.scheme!r}; {expected}")
    try:
        port = parts.port or _PORTS[parts.scheme]
    except ValueError:
        raise PeerError(f"{url!r} is not the address of a predictor: its port is not a number; {expected}") from None
    if not parts.hostname or parts.username or parts.query or parts.fragment:
        raise PeerError(f"{url!r} is not the address of a predictor; {expected}")
    # % is kept: a path that is escaped already must not be escaped twice.
    path = quote(parts.path.rstrip("/"), safe="/%")
    return ServerAddress(host=parts.hostname, port=port, secure=parts.scheme == "https", path=path)


def token_of(given: str | None) -> str | None:
    """The token to show: the given one, else CLICKLINE_TOKEN's, else none."""
    token = given if given is not None else os.environ.get("CLICKLINE_TOKEN") or None
    # A line end in the token would add header lines to every request.
    if token is not None and not (token.isascii() and token.isprintable()):
        raise PeerError("the token has characters that are not allowed in an HTTP header; use letters and digits")
    return token


class RequestBuilder:
    """Builds the bytes of requests to one address."""

    def __init__(self, address: ServerAddress, token: str | None) -> None:
        common = f"Host: {address.authority}\r\nUser-Agent: clickline/{__version__}\r\nAccept: application/json\r\n"
        if token is not None:
            common += f"Authorization: Bearer {token}\r\n"
        self._path, self._common = address.path, common

    def get(self, path: str) -> bytes:
        return f"GET {self._path}{path} HTTP/1.1\r\n{self._common}\r\n".encode("latin-1")

    def post(self, path: str, body: bytes, *, kind: str = "application/json", extra: str = "") -> bytes:
        """`extra`: further header lines, each ended by CR LF."""
        head = f"POST {self._path}{path} HTTP/1.1\r\n{self._common}Content-Type: {kind}\r\n{extra}"
        return f"{head}Content-Length: {len(body)}\r\n\r\n".encode("latin-1") + body


def predict_path(model: str | None) -> str:
    """The path of JSON rows."""
    return "/predict" if model is None else f"/models/{quote(model, safe='')}/predict"


def model_path(model: str) -> str:
    """The path of a model's metadata."""
    return f"/v2/models/{quote(model, safe='')}"


def infer_path(model: str, version: int | None = None) -> str:
    """The path of predictions by the Open Inference Protocol."""
    pinned = "" if version is None else f"/versions/{version}"
    return f"{model_path(model)}{pinned}/infer"


def model_names(status: PredictionServerStatus) -> list[str]:
    """Models that a server's status lists."""
    return list(status.get("models", ()))


def default_model(status: PredictionServerStatus) -> str:
    """The model of requests that name none. Raises PeerError if there is no default."""
    names = model_names(status)
    default = status.get("default") or (names[0] if len(names) == 1 else None)
    if default is None:
        raise PeerError(f"the server has no default model; name one of: {', '.join(names) or 'none is loaded yet'}")
    return str(default)


@dataclass(frozen=True, slots=True)
class Reply:
    """One HTTP reply; names of headers in lower case."""

    status: int
    headers: dict[bytes, bytes]
    body: bytes
    keep: bool
    """Whether the connection may be used again."""


class ReplyParser:
    """Finds the replies in the bytes of one connection."""

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self.begun = self._headed = False
        self._start()

    def _start(self) -> None:
        self._headers: dict[bytes, bytes] = {}
        self._body: list[bytes] = []
        self._size = 0
        self._reply: Reply | None = None
        self.begun = self._headed = False

    def feed(self, data: bytes) -> Reply | None:
        """Parse the next bytes, which are empty at the end of the connection. Returns a reply when it is complete."""
        if not data:
            return self._ended()
        # From the first byte of a reply on, a loss is a failed try; before it, the server may have closed an idle
        # connection.
        self.begun = True
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserCallbackError as error:
            raise error.__context__ or error from None
        except httptools.HttpParserError as error:
            raise PeerError(f"the server does not speak HTTP: {error}") from None
        reply = self._reply
        if reply is not None:
            self._start()
        return reply

    def _ended(self) -> Reply:
        # A reply without a length ends with its connection; any other one is cut off.
        unsized = not {b"content-length", b"transfer-encoding"} & self._headers.keys()
        if not self._headed or not unsized:
            raise LostConnection("the connection was closed before the reply was complete")
        return Reply(self._parser.get_status_code(), self._headers, b"".join(self._body), keep=False)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        self._headed = True
        length = self._headers.get(b"content-length", b"0")
        # Refused by the announced length, before any of the body is kept.
        self._check(int(length) if length.isdigit() else 0)

    def on_body(self, data: bytes) -> None:
        self._size += len(data)
        # Again, for replies in chunks, which announce no length.
        self._check(self._size)
        self._body.append(data)

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if status >= 200:  # 1xx only announces the reply
            keep = bool(self._parser.should_keep_alive())
            self._reply = Reply(status, self._headers, b"".join(self._body), keep)
        else:
            self._headers, self._headed = {}, False

    def _check(self, size: int) -> None:
        if size > MOST_BYTES:
            raise PeerError(f"a reply of {size:,} bytes is too large; a predictor sends at most {MOST_BYTES:,}")


def read_json(reply: Reply) -> Any:
    """The JSON value in a reply. Raises RequestError if the server refused."""
    check(reply)
    try:
        return msgspec.json.decode(reply.body)
    except msgspec.DecodeError as error:
        raise PeerError(f"the reply is not JSON: {error}; is this a predictor?") from None


def check(reply: Reply) -> None:
    """Raises RequestError, with the server's own message, unless the reply has status 200."""
    if reply.status == 200:
        return
    try:
        document = msgspec.json.decode(reply.body)
    except msgspec.DecodeError:  # not from a predictor, but from a proxy in between
        document = None
    document = document if isinstance(document, dict) else {}
    message = document.get("error") or f"HTTP status {reply.status}: {reply.body[:200].decode('utf-8', 'replace')}"
    reason = document.get("reason") or f"http_{reply.status}"
    listed = document.get("mistakes")
    mistakes = [mistake for mistake in listed if isinstance(mistake, dict)] if isinstance(listed, list) else []
    raise RequestError(
        str(message),
        reason=str(reason),
        status=reply.status,
        retry_after=_retry_after(reply),
        mistakes=[(str(mistake.get("reason")), str(mistake.get("error"))) for mistake in mistakes],
    )


def _retry_after(reply: Reply) -> float | None:
    try:
        seconds = float(reply.headers[b"retry-after"])
    except (KeyError, ValueError):  # not there, or a date, which predictors do not send
        return None
    return seconds if 0 <= seconds < 86_400 else None
