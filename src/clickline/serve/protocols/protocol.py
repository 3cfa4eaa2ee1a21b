"""The forms in which predictions are asked for over HTTP: how each is read, answered and refused.

A body is opened before the version is chosen, as far as that needs no version (who asks, for which variant), and its
features are read afterwards, by the version's own reader.
"""

from __future__ import annotations

from typing import Any, Protocol

from clickline.net.request_errors import RequestError, refuse
from clickline.serve.http.http_messages import Request, Response, error_response, retry_headers
from clickline.serve.prediction import PredictionInput, PredictionResult
from clickline.serve.predictor.feature_reader import FeatureReader, sticky_key
from clickline.serve.protocols import elasticctr_shapes, json_rows, open_inference

_BINARY = b"application/octet-stream"
_HEADER_LENGTH = b"Inference-Header-Content-Length"
_CLIENT_ERRORS = range(400, 429)


class Asked:
    """What is known of a request before its features are read."""

    __slots__ = ("body", "content", "missing")

    def __init__(self, body: bytes, content: Any = None) -> None:
        self.body, self.content = body, content
        self.missing = 0


class Form(Protocol):
    protocol: str

    def open(self, body: bytes, request: Request) -> Asked: ...

    def key(self, asked: Asked) -> str | int | None:
        """What decides among the variants of a sticky split; only asked for where there is one."""

    def question(self, asked: Asked, reader: FeatureReader, *, most_rows: int) -> PredictionInput: ...
    def answer(self, answer: PredictionResult, asked: Asked) -> Response: ...
    def failure(self, error: RequestError, asked: Asked | None) -> Response: ...


class Plain:
    """{"instances": [{column: value}]}"""

    protocol = "plain"

    def open(self, body: bytes, request: Request) -> Asked:
        return Asked(body)

    def key(self, asked: Asked) -> str | int | None:
        return sticky_key(asked.body)

    def question(self, asked: Asked, reader: FeatureReader, *, most_rows: int) -> PredictionInput:
        return reader.from_json(asked.body, most_rows=most_rows)

    def answer(self, answer: PredictionResult, asked: Asked) -> Response:
        return Response(200, json_rows.encode(answer, missing=asked.missing))

    def failure(self, error: RequestError, asked: Asked | None) -> Response:
        return error_response(error)


class OpenInference:
    """Open Inference Protocol v2, with or without binary tensors."""

    protocol = "v2"

    def open(self, body: bytes, request: Request) -> Asked:
        length = request.headers.get(b"inference-header-content-length")
        return Asked(b"", open_inference.decode(body, None if length is None else _length(length)))

    def key(self, asked: Asked) -> str | int | None:
        key = asked.content.parameters.get("key")
        return key if isinstance(key, str | int) else None

    def question(self, asked: Asked, reader: FeatureReader, *, most_rows: int) -> PredictionInput:
        return reader.from_tensors(asked.content.inputs, most_rows=most_rows)

    def answer(self, answer: PredictionResult, asked: Asked) -> Response:
        body, length = open_inference.encode(answer, asked.content)
        if length is None:
            return Response(200, body)
        return Response(200, body, content_type=_BINARY, headers=((_HEADER_LENGTH, b"%d" % length),))

    def failure(self, error: RequestError, asked: Asked | None) -> Response:
        return error_response(error)


class Elastic:
    """ElasticCTR's. What is wrong with a request is told in the body, with status 200, as it always was there."""

    protocol = "elastic"

    def open(self, body: bytes, request: Request) -> Asked:
        return Asked(body)

    def key(self, asked: Asked) -> str | int | None:
        return None

    def question(self, asked: Asked, reader: FeatureReader, *, most_rows: int) -> PredictionInput:
        return reader.from_slots(asked.body, most_rows=most_rows)

    def answer(self, answer: PredictionResult, asked: Asked) -> Response:
        return Response(200, elasticctr_shapes.encode_elastic(answer))

    def failure(self, error: RequestError, asked: Asked | None) -> Response:
        return _told_in_body(error, elasticctr_shapes.encode_elastic_error(error))


class General:
    """That of the general model service; errors as with ElasticCTR's."""

    protocol = "general"

    def open(self, body: bytes, request: Request) -> Asked:
        return Asked(body, elasticctr_shapes.log_id_of(body))

    def key(self, asked: Asked) -> str | int | None:
        return None

    def question(self, asked: Asked, reader: FeatureReader, *, most_rows: int) -> PredictionInput:
        return reader.from_general(asked.body, most_rows=most_rows)

    def answer(self, answer: PredictionResult, asked: Asked) -> Response:
        return Response(200, elasticctr_shapes.encode_general(answer, log_id=asked.content))

    def failure(self, error: RequestError, asked: Asked | None) -> Response:
        log_id = 0 if asked is None else asked.content
        return _told_in_body(error, elasticctr_shapes.encode_general_error(error, log_id=log_id))


FORMS: dict[str, Form] = {"predict": Plain(), "infer": OpenInference(), "elastic": Elastic(), "general": General()}
"""By the endpoint that takes them."""


def _told_in_body(error: RequestError, body: bytes) -> Response:
    """Overload and our own failures keep their status: whatever stands in between must be able to see them."""
    status = 200 if error.status in _CLIENT_ERRORS else error.status
    return Response(status, body, headers=retry_headers(error))


def _length(text: bytes) -> int:
    if not text.isdigit() or len(text) > 12:
        shown = text[:20].decode("latin-1")
        raise refuse("malformed", f"Inference-Header-Content-Length is {shown}, which is no number of bytes.")
    return int(text)
