"""JSON rows, the protocol for people: rows of raw values in, probabilities out.

{"instances": [{"C1": "68fd1e64", "I1": 3}]}
{"predictions": [0.031], "version": 12, "model": "ctr", "missing": 0}
"""

from __future__ import annotations

import msgspec
import numpy as np

from clickline._native import json_floats, json_member
from clickline.net.request_errors import RequestError
from clickline.serve.http.http_messages import Request, Response, error_response
from clickline.serve.prediction import PredictionInput, PredictionResult, RequestReader
from clickline.serve.protocols.prediction_protocol import OpenedRequest, ProtocolDescription


class JsonRows:
    """`{"instances": [{column: value}]}`; a PredictionProtocol."""

    name = "plain"
    paths = ("/predict", "/models/{model}/predict")
    description = ProtocolDescription(
        summary="Predict, from rows of raw values",
        request="Instances",
        response="Predictions",
        example={"instances": [{"C1": "68fd1e64", "I1": 3}, {"C1": "05db9164"}]},
    )

    def open(self, body: bytes, request: Request) -> OpenedRequest:
        return OpenedRequest(body)

    def key(self, opened: OpenedRequest) -> str | int | None:
        return sticky_key(opened.body)

    def read(self, opened: OpenedRequest, reader: RequestReader, *, most_rows: int) -> PredictionInput:
        return reader.from_json(opened.body, most_rows=most_rows)

    def answer(self, result: PredictionResult, opened: OpenedRequest) -> Response:
        return Response(200, encode(result, missing=opened.missing))

    def failure(self, error: RequestError, opened: OpenedRequest | None) -> Response:
        return error_response(error)


def sticky_key(body: bytes) -> str | None:
    """The `key` beside the instances: requests of the same key go to the same variant. None if there is none."""
    return json_member(body, "key")


def encode(result: PredictionResult, *, missing: int = 0) -> bytes:
    """One prediction for each instance; one for each label, by its name, where the model has several.

    `output` says what they are where they are no probabilities.
    """
    body: dict[str, object] = {"predictions": _predictions(result), "version": result.version, "model": result.model}
    if result.tag:
        body["variant"] = result.tag
    if result.output != "probability":
        body["output"] = result.output
    body["missing"] = missing
    return msgspec.json.encode(body)


def _predictions(result: PredictionResult) -> msgspec.Raw | list[dict[str, float]]:
    if len(result.labels) == 1:
        # Native code writes the shortest digits of a float32; as Python floats they would be printed as doubles.
        return msgspec.Raw(json_floats(np.ascontiguousarray(result.probability)))
    return [dict(zip(result.labels, row, strict=True)) for row in result.probability.tolist()]
