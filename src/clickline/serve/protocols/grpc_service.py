"""The Open Inference Protocol over gRPC.

Calls run in a few threads, each of which waits for its result; batching happens behind them, so that few are enough.
Reader, predictor and reasons are the same as over HTTP; a reason becomes a status code and is sent in the trailing
metadata as `clickline-reason`. Beware: gRPC refuses by itself, before any code here runs, messages above the size limit
and calls beyond the concurrency limit (both with RESOURCE_EXHAUSTED).

A handler is chosen when the metadata is there, and the message of a call is received only when its handler asks for it.
So calls without the token get a handler that never does: what they send beyond 64 KiB, which HTTP/2 allows at first, is
not even read from the connection. Messages are received by the threads, so there are never more of them than of those.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

import grpc

from clickline.net.protos import open_inference_pb2 as messages
from clickline.net.request_errors import RequestError, refuse
from clickline.net.tokens import shows_token
from clickline.serve.failure_log import log_failure
from clickline.serve.metrics.metric_sink import MetricSink
from clickline.serve.metrics.request_series import NO_MODEL, RequestSeries
from clickline.serve.prediction import PredictionInput, PredictionResult
from clickline.serve.protocols.grpc_tensors import metadata_of, response_of, tensors_of
from clickline.serve.protocols.open_inference import model_metadata, server_metadata

if TYPE_CHECKING:
    from clickline.serve.prediction import PredictionService, RequestReader, VersionChoice
    from clickline.serve.serve_settings import ServeLimits

SERVICE = "inference.GRPCInferenceService"
_UNAUTHENTICATED = 2
"""Threads that may wait for messages of calls without the token, which are those of health."""
_CODES = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    404: grpc.StatusCode.NOT_FOUND,
    405: grpc.StatusCode.UNIMPLEMENTED,
    413: grpc.StatusCode.RESOURCE_EXHAUSTED,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    500: grpc.StatusCode.INTERNAL,
    503: grpc.StatusCode.UNAVAILABLE,
    504: grpc.StatusCode.DEADLINE_EXCEEDED,
}
_log = logging.getLogger(__name__)


class _ChosenError(Exception):
    """Raised when a request fails after its model is known, so that the failure is counted for the model."""

    def __init__(self, error: RequestError, series: RequestSeries) -> None:
        super().__init__(str(error))
        self.error, self.series = error, series


class GrpcService(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Handlers of all calls, chosen by a call's name and by whether it shows the token."""

    def __init__(
        self,
        predictor: PredictionService,
        token: bytes | None,
        limits: ServeLimits,
        counts: MetricSink,
        on_authenticated: Callable[[str], None],
    ) -> None:
        self._predictor, self._limits, self._counts = predictor, limits, counts
        self._token, self._on_authenticated = token, on_authenticated
        self._unauthenticated = threading.Semaphore(_UNAUTHENTICATED)
        self._refusing = grpc.stream_stream_rpc_method_handler(self._refuse_unauthenticated)
        calls: dict[str, tuple[Callable[[Any, Any], Any], bool]] = {
            "ServerLive": (self._server_live, True),
            "ServerReady": (self._server_ready, True),
            "ModelReady": (self._model_ready, True),
            "ServerMetadata": (self._server_metadata, False),
            "ModelMetadata": (self._model_metadata, False),
            "ModelInfer": (self._model_infer, False),
        }
        self._handlers, self._open_handlers = dict[str, Any](), dict[str, Any]()
        for name, (call, is_open) in calls.items():
            codec = {
                "request_deserializer": getattr(messages, f"{name}Request").FromString,
                "response_serializer": getattr(messages, f"{name}Response").SerializeToString,
            }
            path = f"/{SERVICE}/{name}"
            self._handlers[path] = grpc.unary_unary_rpc_method_handler(self._handler(call), **codec)
            if is_open:
                # As a stream: gRPC calls a unary handler only when the message has been received.
                handler = self._open_handler(call, has_message=name == "ModelReady")
                self._open_handlers[path] = grpc.stream_unary_rpc_method_handler(handler, **codec)

    def service(self, details: Any) -> Any:
        """The handler of a call, by its name and metadata; nothing else of it is known yet. None: there is no such
        call."""
        if self._token is None:
            return self._handlers.get(details.method)
        # A handler must be chosen before the message comes: see the module's docstring.
        shown = next((value for name, value in details.invocation_metadata if name == "authorization"), "")
        if shows_token(shown.encode() if isinstance(shown, str) else shown, self._token):
            return self._handlers.get(details.method)
        return self._open_handlers.get(details.method, self._refusing)

    def _handler(self, call: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        """The handler of a call that shows the token, if one is required."""

        def run(request: Any, context: grpc.ServicerContext) -> Any:
            if self._token is not None:
                self._on_authenticated(context.peer())
            return self._run(call, request, context)

        return run

    def _open_handler(self, call: Callable[[Any, Any], Any], *, has_message: bool) -> Callable[[Any, Any], Any]:
        """The handler of the same call without the token. It receives a message only if the call has one."""

        def run(requests: Iterator[Any], context: grpc.ServicerContext) -> Any:
            if not has_message:
                return self._run(call, None, context)
            # Waiting for a message takes a thread for as long as the client likes, so only few calls may do so.
            if not self._unauthenticated.acquire(blocking=False):
                self._refuse(refuse("overloaded", "too many calls without the token are under way", 1.0), context)
            try:
                request = next(requests, None)
            finally:
                self._unauthenticated.release()
            if request is None:
                self._refuse(refuse("malformed", "the call has no message"), context)
            return self._run(call, request, context)

        return run

    def _refuse_unauthenticated(self, _requests: Iterator[Any], context: grpc.ServicerContext) -> NoReturn:
        message = "the call shows no token, or a wrong one; send the metadata authorization: Bearer …"
        self._refuse(refuse("unauthorised", message), context)

    def _run(self, call: Callable[[Any, Any], Any], request: Any, context: grpc.ServicerContext) -> Any:
        try:
            return call(request, context)
        except RequestError as error:
            self._refuse(error, context)
        except _ChosenError as failed:
            self._refuse(failed.error, context, failed.series)
        except Exception as error:
            log_failure(_log, "a gRPC call failed", error)
            self._refuse(refuse("internal", "the server failed at this; its log says where"), context)

    def _refuse(self, error: RequestError, context: grpc.ServicerContext, series: RequestSeries = NO_MODEL) -> NoReturn:
        self._counts.count("clickline_failures_total", label=series.failures(error.reason))
        trailers = [("clickline-reason", error.reason)]
        if error.retry_after is not None:
            trailers.append(("retry-after", str(max(1, math.ceil(error.retry_after)))))
        context.set_trailing_metadata(trailers)
        context.abort(_CODES.get(error.status, grpc.StatusCode.UNKNOWN), str(error))
        raise AssertionError("abort raises")

    def _server_live(self, _request: Any, _context: Any) -> Any:
        return messages.ServerLiveResponse(live=True)

    def _server_ready(self, _request: Any, _context: Any) -> Any:
        return messages.ServerReadyResponse(ready=self._predictor.ready())

    def _model_ready(self, request: Any, _context: Any) -> Any:
        try:
            self._predictor.choose(request.name or None, version=_number(request.version))
        except RequestError as error:
            if error.reason != "not_ready":
                raise
            return messages.ModelReadyResponse(ready=False)
        return messages.ModelReadyResponse(ready=True)

    def _server_metadata(self, _request: Any, _context: Any) -> Any:
        return messages.ServerMetadataResponse(**server_metadata())

    def _model_metadata(self, request: Any, _context: Any) -> Any:
        chosen = self._predictor.choose(request.name or None, version=_number(request.version))
        name = request.name or chosen.model
        return metadata_of(model_metadata(chosen.model_version, name, chosen.served.versions))

    def _model_infer(self, request: Any, context: grpc.ServicerContext) -> Any:
        began = time.perf_counter()
        series = NO_MODEL
        try:
            key = request.parameters.get("key")
            chosen = self._predictor.choose(
                request.model_name or None,
                version=_number(request.model_version),
                key=None if key is None else str(getattr(key, key.WhichOneof("parameter_choice") or "string_param")),
            )
            series = chosen.series
        finally:
            self._counts.count("clickline_requests_total", label=series.requests["grpc"])
        try:
            result = self._infer(chosen, request, context, began)
        except RequestError as error:
            raise _ChosenError(error, series) from error
        self._counts.observe("clickline_seconds", time.perf_counter() - began, label=series.total)
        return response_of(result, request)

    def _infer(
        self, chosen: VersionChoice, request: Any, context: grpc.ServicerContext, began: float
    ) -> PredictionResult:
        tensors = tensors_of(request)

        def read(reader: RequestReader) -> PredictionInput:
            return reader.from_tensors(tensors, most_rows=self._limits.rows)

        question = read(chosen.model_version.reader)
        self._counts.observe("clickline_seconds", time.perf_counter() - began, label=chosen.series.read)
        return self._predictor.ask(chosen, question, timeout=self._time_left(context), again=read)

    def _time_left(self, context: grpc.ServicerContext) -> float:
        """Seconds that the caller still waits, but no more than the server's own limit."""
        left = context.time_remaining()
        return self._limits.timeout if left is None else min(self._limits.timeout, left)


def _number(version: str) -> int | None:
    if not version:
        return None
    if not (version.isascii() and version.isdigit() and len(version) < 19):
        raise refuse("unknown_version", f"{version[:40]!r} is not a version: versions are numbers")
    return int(version)
