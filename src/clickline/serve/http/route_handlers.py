"""What every path does. Nothing here waits: predictions are handed to the predictor, which calls back.

A request's version is chosen once, before its body is read, since each version reads features by its own definition;
the same version then computes. Whatever goes wrong becomes an answer: with its reason where it is known, with 500 and a
traceback in our own log where it is a bug.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from clickline.net.request_errors import RequestError, refuse
from clickline.serve.http.access_log import AccessLog
from clickline.serve.http.admission import ByteBudget
from clickline.serve.http.auth import Guard, shows_token
from clickline.serve.http.exchange import Exchange, Found
from clickline.serve.http.failure_log import log_failure
from clickline.serve.http.http_messages import HTML, Response, error_response, json_response
from clickline.serve.http.routes import Place, Route, Router
from clickline.serve.metrics import metrics_page
from clickline.serve.metrics.metric_sink import MetricSink
from clickline.serve.openapi import openapi, openapi_page
from clickline.serve.protocols.open_inference import model_metadata, server_metadata
from clickline.serve.protocols.protocol import FORMS, Form

if TYPE_CHECKING:
    from clickline.serve.predictor.predictor import Predictor

log = logging.getLogger("clickline.serve")
_FROM_HERE_ONLY = (
    (b"Content-Security-Policy", b"default-src 'none'; style-src 'unsafe-inline'"),
    (b"X-Content-Type-Options", b"nosniff"),
)
_AGAIN = 1.0
"""Seconds after which somebody who came too early may come again."""


class Service:
    """Answers requests. The loop's thread only."""

    def __init__(
        self,
        predictor: Predictor,
        *,
        counts: MetricSink,
        guard: Guard,
        directory: Path,
        most_rows: int,
        body_limit: int,
        budget: ByteBudget,
        sticky: bool = False,
        access_share: float = 0.0,
        on_connections: Callable[[int], None] = lambda _: None,
    ) -> None:
        """`directory` holds the counts of all workers. `sticky`: some split looks at the key of a request."""
        self._predictor, self._counts, self._guard, self._directory = predictor, counts, guard, directory
        self._most_rows, self._body_limit, self._sticky = most_rows, body_limit, sticky
        self._budget = budget
        self._access = AccessLog(access_share)
        self._on_connections = on_connections
        self._router = Router()
        self._connections = 0
        self._since = time.time()
        self.draining = False
        self._endpoints: dict[str, Callable[[Exchange, Place], Response]] = {
            "server_metadata": lambda _exchange, _place: json_response(server_metadata()),
            "live": lambda _exchange, _place: json_response({"live": True}),
            "ready": self._ready,
            "model_metadata": self._model_metadata,
            "model_ready": self._model_ready,
            "metrics": self._metrics,
            "status": self._status,
            "openapi": lambda _exchange, _place: json_response(openapi.description(tuple(predictor.names))),
            "docs": lambda _exchange, _place: Response(
                200, openapi_page.html_page(), content_type=HTML, headers=_FROM_HERE_ONLY
            ),
        }

    # --- what the front calls ---

    def authorised(self, method: bytes, url: bytes, headers: dict[bytes, bytes], *, has_body: bool) -> bool:
        """Whether a head shows the token; False for health, which needs none but then may have no body either."""
        token = self._guard.token
        if token is None or shows_token(headers.get(b"authorization", b""), token):
            return True
        if not has_body and self._is_open(method, url):
            return False
        # What is not there is nobody's business either.
        raise refuse("unauthorised", "This needs the server's token: Authorization: Bearer …")

    def handle(self, exchange: Exchange) -> None:
        """Answer, or see to it that somebody does. Never raises."""
        request = exchange.request
        assert request is not None  # noqa: S101
        try:
            if request.path == "*" and request.method == "OPTIONS":
                exchange.finish(Response(204, headers=((b"Allow", b"GET, HEAD, POST, OPTIONS"),)))
                return
            place = self._router.find(request.path)
            route = place.route
            if request.method == "POST" and route.method == "POST":
                self._predict(exchange, place, FORMS[route.endpoint])
            elif route.method == "GET" and request.method in ("GET", "HEAD"):
                exchange.finish(self._endpoints[route.endpoint](exchange, place))
            elif request.method == "OPTIONS":
                exchange.finish(Response(204, headers=((b"Allow", route.allow),)))
            else:
                self._wrong_method(exchange, route)
        except Exception as error:
            self._fail(exchange, error)

    def resolve(self, exchange: Exchange, found: Found) -> None:
        """The predictor has called back. Never raises."""
        if exchange.response is not None:
            return
        if isinstance(found, RequestError):
            self._fail(exchange, found)
            return
        try:
            exchange.version = found.version
            assert exchange.form is not None and exchange.asked is not None  # noqa: S101
            response = exchange.form.answer(found, exchange.asked)
        except Exception as error:
            self._fail(exchange, error)
            return
        exchange.finish(response)

    def sent(self, exchange: Exchange, response: Response) -> None:
        if exchange.form is not None:
            seconds = perf_counter() - exchange.started
            self._counts.observe("clickline_seconds", seconds, exchange.series.total)
        if self._access.share:
            self._access.note(exchange, response, perf_counter() - exchange.started)

    def refused(self, error: RequestError) -> None:
        """What did not even get to be a request."""
        self._counts.count("clickline_failures_total", 1.0, error.reason)

    def connected(self, connections: int, *, new: bool) -> None:
        self._connections = connections
        self._counts.gauge("clickline_connections", connections)
        if new:
            self._counts.count("clickline_connections_total")
        self._on_connections(connections)

    def evicted(self) -> None:
        """A connection that had not shown the token had to make room for another."""
        self._counts.count("clickline_failures_total", 1.0, "evicted")

    # --- predictions ---

    def _predict(self, exchange: Exchange, place: Place, form: Form) -> None:
        request, started = exchange.request, perf_counter()
        assert request is not None  # noqa: S101
        exchange.form = form
        try:
            body = request.body(limit=self._body_limit)
            if len(body) > exchange.held:  # it was compressed
                exchange.hold(len(body) - exchange.held)
            asked = exchange.asked = form.open(body, request)
            key = form.key(asked) if self._sticky else None
            chosen = self._predictor.choose(place.model, version=place.version, key=key)
            exchange.series = chosen.series
        finally:  # one that is refused before it is known for whom it is counts too
            self._counts.count("clickline_requests_total", 1.0, exchange.series.requests[form.protocol])
        cache_key = (form.protocol, asked.body) if chosen.loaded.requests is not None and asked.body else None
        if cache_key is not None and (known := self._predictor.cached(chosen, cache_key)) is not None:
            answer, asked.missing = known
            exchange.rows = len(answer.probability)
            exchange.done(answer)
            return
        read = partial(form.question, asked, most_rows=self._most_rows)
        question = read(chosen.loaded.reader)
        exchange.rows = len(question.batch)
        asked.missing = question.missing
        self._counts.observe("clickline_seconds", perf_counter() - started, chosen.series.read)
        self._predictor.submit(chosen, question, done=exchange.done, again=read, cache_key=cache_key)

    def _fail(self, exchange: Exchange, error: Exception) -> None:
        if not isinstance(error, RequestError):
            log_failure(log, "a request failed", error)
            error = refuse("internal", "The server failed at this; its log says where.")
        self._counts.count("clickline_failures_total", 1.0, exchange.series.failures(error.reason))
        form = exchange.form
        exchange.finish(error_response(error) if form is None else form.failure(error, exchange.asked))

    # --- everything else ---

    def _is_open(self, method: bytes, url: bytes) -> bool:
        path = url.partition(b"?")[0].decode("latin-1")
        if path == "*":
            return method == b"OPTIONS"
        try:
            return self._router.find(path).route.open
        except RequestError:
            return False

    def _wrong_method(self, exchange: Exchange, route: Route) -> None:
        request = exchange.request
        assert request is not None  # noqa: S101
        allow = route.allow.decode()
        error = refuse("wrong_method", f"{route.template} answers {allow}, not {request.method}.")
        self._counts.count("clickline_failures_total", 1.0, error.reason)
        exchange.finish(error_response(error, headers=((b"Allow", route.allow),)))

    def _ready(self, _exchange: Exchange, _place: Place) -> Response:
        if self.draining:
            raise refuse("draining", "This worker is about to end.", _AGAIN)
        if not self._predictor.ready():
            lacking = [name for name, served in self._predictor.models.items() if served.current is None]
            raise refuse("not_ready", f"Not every model has a complete version yet: {', '.join(lacking)}.", _AGAIN)
        return json_response({"ready": True})

    def _model_ready(self, _exchange: Exchange, place: Place) -> Response:
        if self.draining:
            raise refuse("draining", "This worker is about to end.", _AGAIN)
        self._predictor.choose(place.model, version=place.version)
        return json_response({"name": place.model, "ready": True})

    def _model_metadata(self, _exchange: Exchange, place: Place) -> Response:
        chosen = self._predictor.choose(place.model, version=place.version)
        assert place.model is not None  # noqa: S101
        return json_response(model_metadata(chosen.loaded, place.model, chosen.served.status()["versions"]))

    def _metrics(self, _exchange: Exchange, _place: Place) -> Response:
        times = {}
        for name, served in self._predictor.models.items():
            loaded = served.current
            if loaded is not None:
                times[name] = loaded.created if loaded.watermark is None else float(loaded.watermark)
        return Response(200, metrics_page.page(self._directory, times=times), content_type=metrics_page.CONTENT_TYPE)

    def _status(self, _exchange: Exchange, _place: Place) -> Response:
        own: dict[str, Any] = {
            "pid": os.getpid(),
            "since": self._since,
            "connections": self._connections,
            "body_bytes": self._budget.used,
            "draining": self.draining,
        }
        return json_response({**self._predictor.status(), "worker": own})
