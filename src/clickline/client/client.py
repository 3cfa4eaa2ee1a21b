"""Asking a predictor from Python: Client; async_clients.py has the same with await.

Connections are kept and used again; any number of threads may share a Client.
`timeout` is for the whole call with all its tries. A server that says "not now" (429, 503) is asked again after the
time that it names, one that was lost at once. RequestError: the server refuses, with its reason; PeerError: there is
nobody to ask, or no answer in time.
"""

from __future__ import annotations

import os
import socket
import ssl
import time
from collections import deque
from collections.abc import Sequence
from typing import Any, Self

from clickline.client.http_requests import (
    LostConnection,
    NoAnswer,
    Patience,
    Replies,
    Reply,
    Requests,
    address_of,
    check,
    default_model,
    infer_path,
    model_names,
    model_path,
    predict_path,
    read_json,
    token_of,
)
from clickline.client.payloads import Prediction, Row, plain_body, read_plain, read_v2, rows_of, v2_body
from clickline.errors import PeerError
from clickline.net.request_errors import RequestError

MOST_KEPT = 64
"""Idle connections that are kept."""
PIECE = 65536
"""Bytes to read at once."""


class Asking:
    """What both clients are made with, and the requests that they send."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        timeout: float = 5.0,
        retries: int = 2,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        if timeout <= 0 or retries < 0:
            raise ValueError(f"timeout must be above 0 and retries at least 0, but got {timeout:g} and {retries}")
        self.address = address_of(url)
        self._requests = Requests(self.address, token_of(token))
        self._timeout, self._retries = timeout, retries
        self._tls = (tls or ssl.create_default_context()) if self.address.secure else None
        self._idle: deque[Any] = deque()  # connections; its append and pop need no lock

    def __repr__(self) -> str:
        return f"{type(self).__name__}('{self.address}')"

    def _patience(self) -> Patience:
        return Patience(timeout=self._timeout, retries=self._retries)

    def _plain(self, rows: Row | Sequence[Row], model: str | None, key: str | int | None) -> bytes:
        return self._requests.post(predict_path(model), plain_body(rows_of(rows), key=key))

    def _pinned(self, rows: Row | Sequence[Row], model: str, version: int) -> bytes:
        return self._requests.post(infer_path(model, version), v2_body(rows_of(rows)))

    def _unreachable(self, error: OSError) -> PeerError:
        if isinstance(error, ssl.SSLError):  # another try would end in the same way
            return PeerError(f"{self.address} cannot be reached over TLS: {error}")
        said = os.strerror(error.errno) if error.errno and error.errno > 0 else error  # asyncio has words of its own
        return LostConnection(f"{self.address} cannot be reached: {said}; is `clickline serve` running?")

    def _lost(self, error: Exception) -> LostConnection:
        return LostConnection(f"{self.address}: the connection was lost before the answer was complete ({error})")


class _Line:
    """One connection of a Client."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket, self.replies = connection, Replies()

    def exchange(self, request: bytes, patience: Patience) -> Reply:
        self.socket.settimeout(patience.left())
        self.socket.sendall(request)
        while True:
            reply = self.replies.feed(self.socket.recv(PIECE))
            if reply is not None:
                return reply
            self.socket.settimeout(patience.left())


class Client(Asking):
    """A predictor's client.

    Client("http://127.0.0.1:8010").predict({"C1": "68fd1e64", "I1": 3}).probabilities
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close idle connections. A later call opens new ones."""
        while self._idle:
            self._idle.pop().socket.close()

    def predict(
        self,
        rows: Row | Sequence[Row],
        *,
        model: str | None = None,
        version: int | None = None,
        key: str | int | None = None,
    ) -> Prediction:
        """Probabilities of rows of raw values, all from one version: the one in service, or the one named.

        `key`: the same one gets the same variant, where traffic is split.
        """
        if version is not None:
            name = model or default_model(self.status())
            return read_v2(self._ask(self._pinned(rows, name, version)).body)
        return read_plain(self._ask(self._plain(rows, model, key)).body)

    def ready(self) -> bool:
        """Whether every model has a version to answer with. False also if nobody answers."""
        try:
            reply = self._exchange(self._requests.get("/v2/health/ready"), self._patience())
        except (LostConnection, NoAnswer):
            return False
        return reply.status == 200

    def models(self) -> dict[str, Any]:
        """By name: versions, inputs and outputs, as the Open Inference Protocol describes a model."""
        return {name: self.describe(name) for name in model_names(self.status())}

    def describe(self, model: str) -> dict[str, Any]:
        """The same of one model."""
        said: dict[str, Any] = read_json(self._get(model_path(model)))
        return said

    def status(self) -> dict[str, Any]:
        """What the server says of itself: models, versions, splits."""
        said: dict[str, Any] = read_json(self._get("/status"))
        return said

    def post(self, path: str, body: bytes) -> Any:
        """A request in another of the server's JSON forms, and the value it answers with."""
        return read_json(self._ask(self._requests.post(path, body)))

    def _get(self, path: str) -> Reply:
        return self._ask(self._requests.get(path))

    def _ask(self, request: bytes) -> Reply:
        patience = self._patience()
        while True:
            try:
                reply = self._exchange(request, patience)
                check(reply)
                return reply
            except (RequestError, LostConnection) as error:
                time.sleep(patience.pause_after(error))

    def _exchange(self, request: bytes, patience: Patience) -> Reply:
        while True:
            line: _Line
            try:
                line, idle = self._idle.pop(), True
            except IndexError:
                line, idle = self._connect(patience), False
            try:
                reply = line.exchange(request, patience)
            except TimeoutError:
                line.socket.close()
                raise patience.exhausted() from None
            except (OSError, LostConnection) as error:
                line.socket.close()
                if idle and not line.replies.begun:
                    continue  # the server had closed it long ago; that is no failure
                raise self._lost(error) from None
            except BaseException:
                line.socket.close()
                raise
            if reply.keep and len(self._idle) < MOST_KEPT:
                self._idle.append(line)
            else:
                line.socket.close()
            return reply

    def _connect(self, patience: Patience) -> _Line:
        try:
            connection = socket.create_connection((self.address.host, self.address.port), patience.left())
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                connection = self._tls.wrap_socket(
                    connection, server_hostname=self.address.host
                )  # closes it if it fails
        except TimeoutError:
            raise patience.exhausted() from None
        except OSError as error:
            raise self._unreachable(error) from None
        return _Line(connection)
