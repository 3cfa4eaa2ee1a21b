"""What all clients of a predictor share: where to ask, the bytes to send, what comes back, and when to ask again.

Nothing here reads or writes a socket, so the sync client, the async client and the load generator cannot differ in what
they send or how they understand an answer. Beware: a request may be sent twice, which is right for predictions only:
they change nothing.
"""

from __future__ import annotations

import os
import random
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

import httptools
import msgspec

from clickline import __version__
from clickline.errors import PeerError
from clickline.net.request_errors import RequestError

MOST_BYTES = 256 * 1024 * 1024
"""Of an answer: more is no answer of a predictor."""
_AGAIN = (429, 503)
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0
_PORTS = {"http": 80, "https": 443}


class LostConnection(PeerError):
    """The server could not be reached, or went away before it had answered; another try may go better."""


class NoAnswer(PeerError):
    """The time for a call is over."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a predictor listens."""

    host: str
    port: int
    secure: bool
    path: str
    """What comes before every path, for a predictor behind a gateway; empty as a rule."""

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{'https' if self.secure else 'http'}://{self.authority}{self.path}"


def address_of(url: str) -> Address:
    """The parts of http://HOST[:PORT][/PATH]; without a scheme it is http."""
    expected = "write http://HOST:PORT, such as http://127.0.0.1:8010"
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme not in _PORTS:
        raise PeerError(f"'{url}' is no address of a predictor: its scheme is '{parts.scheme}'; {expected}.")
    try:
        port = parts.port or _PORTS[parts.scheme]
    except ValueError:
        raise PeerError(f"'{url}' is no address of a predictor: its port is no number; {expected}.") from None
    if not parts.hostname or parts.username or parts.query or parts.fragment:
        raise PeerError(f"'{url}' is no address of a predictor; {expected}.")
    path = quote(parts.path.rstrip("/"), safe="/%")
    return Address(host=parts.hostname, port=port, secure=parts.scheme == "https", path=path)


def token_of(given: str | None) -> str | None:
    """The token to show: the given one, else CLICKLINE_TOKEN's, else none."""
    token = given if given is not None else os.environ.get("CLICKLINE_TOKEN") or None
    if token is not None and not (token.isascii() and token.isprintable()):
        raise PeerError("The token holds characters that no HTTP header can; use letters and digits.")
    return token


class Requests:
    """Makes the bytes of requests to one address."""

    def __init__(self, address: Address, token: str | None) -> None:
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
    """Of the form for people."""
    return "/predict" if model is None else f"/models/{quote(model, safe='')}/predict"


def model_path(model: str) -> str:
    """Of what a model says of itself."""
    return f"/v2/models/{quote(model, safe='')}"


def infer_path(model: str, version: int | None = None) -> str:
    """Of the Open Inference Protocol."""
    pinned = "" if version is None else f"/versions/{version}"
    return f"{model_path(model)}{pinned}/infer"


def model_names(status: dict[str, Any]) -> list[str]:
    """Models that a server's status lists."""
    return list(status.get("models", ()))


def default_model(status: dict[str, Any]) -> str:
    """The model that a request means that names none."""
    names = model_names(status)
    default = status.get("default") or (names[0] if len(names) == 1 else None)
    if default is None:
        raise PeerError(f"the server has no default model; name one of: {', '.join(names) or 'none is loaded yet'}.")
    return str(default)


@dataclass(frozen=True, slots=True)
class Reply:
    """One HTTP answer; names of headers in lower case."""

    status: int
    headers: dict[bytes, bytes]
    body: bytes
    keep: bool
    """Whether the connection may be used again."""


class Replies:
    """Finds answers in the bytes of one connection."""

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
        """The next bytes, empty at the end of the connection; an answer when it is complete."""
        if not data:
            return self._ended()
        self.begun = True
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserCallbackError as error:
            raise error.__context__ or error from None
        except httptools.HttpParserError as error:
            raise PeerError(f"what answers is no HTTP server: {error}") from None
        reply = self._reply
        if reply is not None:
            self._start()
        return reply

    def _ended(self) -> Reply:
        unsized = not {b"content-length", b"transfer-encoding"} & self._headers.keys()
        if not self._headed or not unsized:
            raise LostConnection("the connection was closed before the answer was complete")
        return Reply(self._parser.get_status_code(), self._headers, b"".join(self._body), keep=False)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        self._headed = True
        said = self._headers.get(b"content-length", b"0")
        self._check(int(said) if said.isdigit() else 0)

    def on_body(self, data: bytes) -> None:
        self._size += len(data)
        self._check(self._size)
        self._body.append(data)

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if status >= 200:  # 1xx only announces the answer
            keep = bool(self._parser.should_keep_alive())
            self._reply = Reply(status, self._headers, b"".join(self._body), keep)
        else:
            self._headers, self._headed = {}, False

    def _check(self, size: int) -> None:
        if size > MOST_BYTES:
            raise PeerError(f"an answer of {size:,} bytes is too large; a predictor's has at most {MOST_BYTES:,}")


def read_json(reply: Reply) -> Any:
    """The value in an answer; a RequestError if the server refused."""
    check(reply)
    try:
        return msgspec.json.decode(reply.body)
    except msgspec.DecodeError as error:
        raise PeerError(f"the answer is no JSON: {error}; is this a predictor?") from None


def check(reply: Reply) -> None:
    """A RequestError with the server's own words unless the answer is one."""
    if reply.status == 200:
        return
    try:
        said = msgspec.json.decode(reply.body)
    except msgspec.DecodeError:  # not from a predictor, but from something in between
        said = None
    said = said if isinstance(said, dict) else {}
    message = said.get("error") or f"HTTP status {reply.status}: {reply.body[:200].decode('utf-8', 'replace')}"
    reason = said.get("reason") or f"http_{reply.status}"
    listed = said.get("mistakes")
    mistakes = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    raise RequestError(
        str(message),
        reason=str(reason),
        status=reply.status,
        retry_after=_retry_after(reply),
        mistakes=[(str(one.get("reason")), str(one.get("error"))) for one in mistakes],
    )


def _retry_after(reply: Reply) -> float | None:
    try:
        seconds = float(reply.headers[b"retry-after"])
    except (KeyError, ValueError):  # not said, or a date, which predictors do not send
        return None
    return seconds if 0 <= seconds < 86_400 else None


class Patience:
    """How long one call may take, whatever it takes, and whether to try again after an error."""

    def __init__(self, *, timeout: float, retries: int) -> None:
        self._timeout, self._retries, self._tries = timeout, retries, 0
        self._end = time.monotonic() + timeout

    def left(self) -> float:
        """Seconds; an error if there are none."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise self.exhausted()
        return left

    def exhausted(self) -> NoAnswer:
        return NoAnswer(f"no answer within {self._timeout:g} s; give more time with timeout=…")

    def pause_after(self, error: RequestError | LostConnection) -> float:
        """Seconds to wait before the next try; raises the error where one would be of no use."""
        self._tries += 1
        refused = isinstance(error, RequestError)
        if self._tries > self._retries or (isinstance(error, RequestError) and error.status not in _AGAIN):
            raise error
        pause = error.retry_after if isinstance(error, RequestError) else None
        if pause is None:
            longest = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** (self._tries - 1))
            # Clients that were refused together must not come back together.
            pause = longest * random.uniform(0.5, 1.0) if refused or self._tries > 1 else 0.0
        if time.monotonic() + pause >= self._end:
            raise error
        return pause
