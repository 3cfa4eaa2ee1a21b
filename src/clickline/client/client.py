"""The Python client of a predictor; async_client.py has the same with await.

Connections are kept and used again; any number of threads may share a Client.
`timeout` is for the whole call with all its retries. A server that is overloaded or not ready (429, 503) is asked again
after the time that it names, one whose connection was lost at once. RequestError: the server refuses, with its reason;
PeerError: the server cannot be reached, or does not answer in time.
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
    Reply,
    ReplyParser,
    RequestBuilder,
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
from clickline.client.payloads import Prediction, Row, infer_body, json_rows_body, read_infer, read_json_rows, rows_of
from clickline.client.retry_budget import NoAnswer, RetryBudget
from clickline.errors import PeerError
from clickline.net.predictor_documents import ModelMetadata, PredictionServerStatus
from clickline.net.request_errors import RequestError

MOST_KEPT = 64
"""Idle connections that are kept."""
PIECE = 65536
"""Bytes that are read at once."""


class BaseClient:
    """What both clients share: their options, and the requests that they send."""

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
        self._requests = RequestBuilder(self.address, token_of(token))
        self._timeout, self._retries = timeout, retries
        self._tls = (tls or ssl.create_default_context()) if self.address.secure else None
        self._idle: deque[Any] = deque()  # connections; append and pop of a deque need no lock

    def __repr__(self) -> str:
        return f"{type(self).__name__}('{self.address}')"

    def _retry_budget(self) -> RetryBudget:
        return RetryBudget(timeout=self._timeout, retries=self._retries)

    def _json_rows(self, rows: Row | Sequence[Row], model: str | None, key: str | int | None) -> bytes:
        return self._requests.post(predict_path(model), json_rows_body(rows_of(rows), key=key))

    def _pinned(self, rows: Row | Sequence[Row], model: str, version: int) -> bytes:
        return self._requests.post(infer_path(model, version), infer_body(rows_of(rows)))

    def _unreachable(self, error: OSError) -> PeerError:
        if isinstance(error, ssl.SSLError):  # another try would fail in the same way
            return PeerError(f"{self.address} cannot be reached over TLS: {error}")
        # The system's own message, since asyncio wraps it in another one.
        why = os.strerror(error.errno) if error.errno and error.errno > 0 else error
        return LostConnection(f"{self.address} cannot be reached: {why}; is `clickline serve` running?")

    def _lost(self, error: Exception) -> LostConnection:
        return LostConnection(f"{self.address}: the connection was lost before the reply was complete ({error})")


class _Connection:
    """One connection of a Client."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket, self.replies = connection, ReplyParser()

    def exchange(self, request: bytes, budget: RetryBudget) -> Reply:
        self.socket.settimeout(budget.left())
        self.socket.sendall(request)
        while True:
            reply = self.replies.feed(self.socket.recv(PIECE))
            if reply is not None:
                return reply
            # A socket's timeout is for one recv; without this, a reply that arrives byte by byte could take for ever.
            self.socket.settimeout(budget.left())


class Client(BaseClient):
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
            # Only the paths of the Open Inference Protocol have versions, and those have to name the model.
            name = model or default_model(self.status())
            return read_infer(self._ask(self._pinned(rows, name, version)).body)
        return read_json_rows(self._ask(self._json_rows(rows, model, key)).body)

    def ready(self) -> bool:
        """Whether every model has a version to answer with. False also if the server does not answer."""
        try:
            # Not `_ask`: here 503 is the answer and no reason to retry.
            reply = self._exchange(self._requests.get("/v2/health/ready"), self._retry_budget())
        except (LostConnection, NoAnswer):
            return False
        return reply.status == 200

    def models(self) -> dict[str, ModelMetadata]:
        """By name: versions, inputs and outputs, as the Open Inference Protocol describes a model."""
        return {name: self.describe(name) for name in model_names(self.status())}

    def describe(self, model: str) -> ModelMetadata:
        """The same of one model."""
        metadata: ModelMetadata = read_json(self._get(model_path(model)))
        return metadata

    def status(self) -> PredictionServerStatus:
        """The status of the server: models, versions, splits."""
        status: PredictionServerStatus = read_json(self._get("/status"))
        return status

    def post(self, path: str, body: bytes) -> Any:
        """A request of another of the server's JSON protocols, and the value it answers with."""
        return read_json(self._ask(self._requests.post(path, body)))

    def _get(self, path: str) -> Reply:
        return self._ask(self._requests.get(path))

    def _ask(self, request: bytes) -> Reply:
        budget = self._retry_budget()
        while True:
            try:
                reply = self._exchange(request, budget)
                check(reply)
                return reply
            except (RequestError, LostConnection) as error:
                time.sleep(budget.pause_after(error))

    def _exchange(self, request: bytes, budget: RetryBudget) -> Reply:
        while True:
            connection: _Connection
            try:
                # The one that was used last, which the server is least likely to have closed.
                connection, idle = self._idle.pop(), True
            except IndexError:
                connection, idle = self._connect(budget), False
            try:
                reply = connection.exchange(request, budget)
            # Before OSError, whose subclass it is: the time of the whole call is over, so no retry follows.
            except TimeoutError:
                connection.socket.close()
                raise budget.exhausted() from None
            except (OSError, LostConnection) as error:
                connection.socket.close()
                # The server had closed it while it was idle. That is not a failure and does not count as a try; each
                # turn uses up one idle connection, so this ends.
                if idle and not connection.replies.begun:
                    continue
                raise self._lost(error) from None
            except BaseException:  # a connection with half a reply on it must not be used again
                connection.socket.close()
                raise
            # Several threads may pass this check at once; a few connections above the limit do no harm.
            if reply.keep and len(self._idle) < MOST_KEPT:
                self._idle.append(connection)
            else:
                connection.socket.close()
            return reply

    def _connect(self, budget: RetryBudget) -> _Connection:
        try:
            opened = socket.create_connection((self.address.host, self.address.port), budget.left())
            # Nagle's algorithm would hold back the last segment of a request until the earlier ones are acknowledged.
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:  # closes the socket if it fails
                opened = self._tls.wrap_socket(opened, server_hostname=self.address.host)
        except TimeoutError:
            raise budget.exhausted() from None
        except OSError as error:
            raise self._unreachable(error) from None
        return _Connection(opened)
