"""The handler of requests: what every path does. Nothing here waits: predictions are given to the predictor, which
calls back.

The version of a request is chosen once, before its body is read, since each version reads features by its own
definition; the same version then computes. Whatever goes wrong becomes a response: with its reason where that is known,
with 500 and a traceback in our own log where it is a bug.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter

from clickline.net.predictor_documents import PredictionServerStatus, WorkerStatus
from clickline.net.request_errors import RequestError, refuse
from clickline.net.tokens import shows_token
from clickline.serve.failure_log import log_failure
from clickline.serve.http.access_log import AccessLog
from clickline.serve.http.auth import TokenAuth
from clickline.serve.http.connection_table import ConnectionTable
from clickline.serve.http.http_messages import HTML, Response, error_response, json_response
from clickline.serve.http.request_exchange import RequestExchange
from clickline.serve.http.routes import Route, RouteMatch, Router, all_routes
from clickline.serve.metrics import metrics_page
from clickline.serve.metrics.metric_sink import MetricSink
from clickline.serve.openapi import openapi, openapi_page
from clickline.serve.prediction import Outcome, PredictionService
from clickline.serve.protocols.open_inference import model_metadata, server_metadata
from clickline.serve.protocols.prediction_protocol import PredictionProtocol

log = logging.getLogger("clickline.serve")
_FROM_HERE_ONLY = (
    (b"Content-Security-Policy", b"default-src 'none'; style-src 'unsafe-inline'"),
    (b"X-Content-Type-Options", b"nosniff"),
)
_RETRY_AFTER = 1.0
"""Seconds after which a server that is not ready may be asked again."""


class RequestHandler:
    """Answers requests. The loop's thread only."""

    def __init__(
        self,
        predictor: PredictionService,
        *,
        protocols: Sequence[PredictionProtocol],
        table: ConnectionTable,
        counts: MetricSink,
        auth: TokenAuth,
        directory: Path,
        most_rows: int,
        sticky: bool = False,
        access_share: float = 0.0,
    ) -> None:
        """`directory` holds the counters of all workers. `sticky`: some split depends on the key of a request."""
        self._predictor, self._table, self._counts, self._auth = predictor, table, counts, auth
        self._directory, self._most_rows, self._sticky = directory, most_rows, sticky
        self._protocols = tuple(protocols)
        self._access = AccessLog(access_share)
        self._router = Router(all_routes(self._protocols))
        self._since = time.time()
        self._endpoints: dict[str, Callable[[RouteMatch], Response]] = {
            "server_metadata": lambda _match: json_response(server_metadata()),
            "live": lambda _match: json_response({"live": True}),
            "ready": self._ready,
            "model_metadata": self._model_metadata,
            "model_ready": self._model_ready,
            "metrics": self._metrics,
            "status": self._status,
            "openapi": self._openapi,
            "docs": self._docs,
        }

    # --- called by connections ---

    def authorised(self, method: bytes, url: bytes, headers: dict[bytes, bytes], *, has_body: bool) -> bool:
        """Whether a head shows the token; False for health, which needs none but then may have no body either. Raises
        RequestError for all other heads."""
        token = self._auth.token
        if token is None or shows_token(headers.get(b"authorization", b""), token):
            return True
        if not has_body and self._is_open(method, url):
            return False
        # Also for paths that do not exist: which ones do is not told without the token.
        raise refuse("unauthorised", "the server's token is required: Authorization: Bearer …")

    def handle(self, exchange: RequestExchange) -> None:
        """Answer a request, or have the predictor do so later. Never raises."""
        request = exchange.request
        assert request is not None  # noqa: S101
        try:
            if request.path == "*" and request.method == "OPTIONS":
                exchange.finish(Response(204, headers=((b"Allow", b"GET, HEAD, POST, OPTIONS"),)))
                return
            match = self._router.find(request.path)
            route = match.route
            if request.method == "POST" and route.protocol is not None:
                self._predict(exchange, match, route.protocol)
            elif route.method == "GET" and request.method in ("GET", "HEAD"):
                exchange.finish(self._endpoints[route.endpoint](match))
            elif request.method == "OPTIONS":
                exchange.finish(Response(204, headers=((b"Allow", route.allow),)))
            else:
                self._wrong_method(exchange, route)
        except Exception as error:
            self._fail(exchange, error)

    def resolve(self, exchange: RequestExchange, outcome: Outcome) -> None:
        """The predictor has called back. Never raises."""
        if exchange.response is not None:
            return
        if isinstance(outcome, RequestError):
            self._fail(exchange, outcome)
            return
        try:
            exchange.version = outcome.version
            assert exchange.protocol is not None and exchange.opened is not None  # noqa: S101
            response = exchange.protocol.answer(outcome, exchange.opened)
        except Exception as error:
            self._fail(exchange, error)
            return
        exchange.finish(response)

    def sent(self, exchange: RequestExchange, response: Response) -> None:
        """Measure and log a request whose response has been written."""
        if exchange.protocol is not None:
            seconds = perf_counter() - exchange.started
            self._counts.observe("clickline_seconds", seconds, exchange.series.total)
        if self._access.share:
            self._access.note(exchange, response, perf_counter() - exchange.started)

    # --- predictions ---

    def _predict(self, exchange: RequestExchange, match: RouteMatch, protocol: PredictionProtocol) -> None:
        request, started = exchange.request, perf_counter()
        assert request is not None  # noqa: S101
        exchange.protocol = protocol
        try:
            body = request.body(limit=self._table.body_limit)
            if len(body) > exchange.held:  # it was compressed
                exchange.hold(len(body) - exchange.held)
            opened = exchange.opened = protocol.open(body, request)
            # Finding the key scans the body once more, so it is done only where a split depends on it.
            key = protocol.key(opened) if self._sticky else None
            chosen = self._predictor.choose(match.model, version=match.version, key=key)
            exchange.series = chosen.series
        finally:  # a request that is refused before its model is known counts too
            self._counts.count("clickline_requests_total", 1.0, exchange.series.requests[protocol.name])
        version = chosen.model_version
        # Before the features are read: a hit costs neither parsing nor a place in the queue.
        cache_key = (protocol.name, opened.body) if version.requests is not None and opened.body else None
        if cache_key is not None and (cached := self._predictor.cached(chosen, cache_key)) is not None:
            result, opened.missing = cached
            exchange.rows = len(result.probability)
            exchange.done(result)
            return
        # Kept for a second call: should the version be gone when its turn comes, another one reads the request anew.
        read = partial(protocol.read, opened, most_rows=self._most_rows)
        question = read(version.reader)
        exchange.rows = len(question.batch)
        opened.missing = question.missing
        self._counts.observe("clickline_seconds", perf_counter() - started, chosen.series.read)
        self._predictor.submit(chosen, question, done=exchange.done, again=read, cache_key=cache_key)

    def _fail(self, exchange: RequestExchange, error: Exception) -> None:
        if not isinstance(error, RequestError):
            log_failure(log, "a request failed", error)
            error = refuse("internal", "the server failed at this; its log says where")
        self._counts.count("clickline_failures_total", 1.0, exchange.series.failures(error.reason))
        protocol = exchange.protocol
        exchange.finish(error_response(error) if protocol is None else protocol.failure(error, exchange.opened))

    def _is_open(self, method: bytes, url: bytes) -> bool:
        path = url.partition(b"?")[0].decode("latin-1")
        if path == "*":
            return method == b"OPTIONS"
        try:
            return self._router.find(path).route.open
        except RequestError:
            return False

    def _wrong_method(self, exchange: RequestExchange, route: Route) -> None:
        request = exchange.request
        assert request is not None  # noqa: S101
        allow = route.allow.decode()
        error = refuse("wrong_method", f"{route.template} answers {allow}, not {request.method}")
        self._counts.count("clickline_failures_total", 1.0, error.reason)
        exchange.finish(error_response(error, headers=((b"Allow", route.allow),)))

    # --- endpoints ---

    def _ready(self, _match: RouteMatch) -> Response:
        self._check_draining()
        if not self._predictor.ready():
            names = ", ".join(self._predictor.unready_models())
            raise refuse("not_ready", f"these models have no complete version yet: {names}", _RETRY_AFTER)
        return json_response({"ready": True})

    def _model_ready(self, match: RouteMatch) -> Response:
        self._check_draining()
        self._predictor.choose(match.model, version=match.version)
        return json_response({"name": match.model, "ready": True})

    def _check_draining(self) -> None:
        # Only readiness is refused at first, so that load balancers choose other servers; predictions are answered
        # until the predictor itself drains.
        if self._table.draining:
            raise refuse("draining", "this worker is about to end", _RETRY_AFTER)

    def _model_metadata(self, match: RouteMatch) -> Response:
        chosen = self._predictor.choose(match.model, version=match.version)
        assert match.model is not None  # noqa: S101
        return json_response(model_metadata(chosen.model_version, match.model, chosen.served.versions))

    def _metrics(self, _match: RouteMatch) -> Response:
        page = metrics_page.page(self._directory, times=self._predictor.data_times())
        return Response(200, page, content_type=metrics_page.CONTENT_TYPE)

    def _status(self, _match: RouteMatch) -> Response:
        worker: WorkerStatus = {
            "pid": os.getpid(),
            "since": self._since,
            "connections": len(self._table.connections),
            "body_bytes": self._table.budget.used,
            "draining": self._table.draining,
        }
        status: PredictionServerStatus = {**self._predictor.status(), "worker": worker}
        return json_response(status)

    def _openapi(self, _match: RouteMatch) -> Response:
        return json_response(openapi.description(self._protocols, tuple(self._predictor.names)))

    def _docs(self, _match: RouteMatch) -> Response:
        page = openapi_page.html_page(self._protocols)
        return Response(200, page, content_type=HTML, headers=_FROM_HERE_ONLY)
