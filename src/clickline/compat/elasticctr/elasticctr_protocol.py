"""ElasticCTR's prediction service over HTTP, so that its clients need not change: a PredictionProtocol of the server.

Features come by slot as 64-bit feasigns; each instance is answered with two probabilities, of no click and of a click;
what is wrong with a request is told in the body, with status 200 and an err_code.
"""

from __future__ import annotations

import msgspec

from clickline.net.request_errors import RequestError
from clickline.serve.http.http_messages import Request, Response, error_in_body
from clickline.serve.openapi.json_schemas import INTEGER, NUMBER, TEXT, array_of, object_of
from clickline.serve.prediction import PredictionInput, PredictionResult, RequestReader
from clickline.serve.protocols.prediction_protocol import OpenedRequest, ProtocolDescription

_FAILED = -1
_FEASIGNS = array_of({"type": ["integer", "string"]})


class ElasticCtrProtocol:
    """`{"instances": [{"slots": [{"slot_name": "101", "feasigns": [5]}]}]}`"""

    name = "elastic"
    paths = ("/ElasticCTRPredictionService/inference", "/ElasticCTRPredictionService/debug")
    description = ProtocolDescription(
        summary="Predict, in ElasticCTR's shape",
        request="ElasticRequest",
        response="ElasticResponse",
        error="ElasticResponse",
        example={"instances": [{"slots": [{"slot_name": "C1", "feasigns": [6571]}]}]},
        schemas={
            "ElasticRequest": object_of(
                {
                    "instances": array_of(
                        object_of({"slots": array_of(object_of({"slot_name": TEXT, "feasigns": _FEASIGNS}))}),
                        minItems=1,
                    )
                },
                text="ElasticCTR's shape: keys that are hashed already.",
            ),
            "ElasticResponse": object_of(
                {
                    "predictions": array_of(object_of({"prob0": NUMBER, "prob1": NUMBER})),
                    "err_code": {**INTEGER, "description": "0, or -1 when err_msg says what is wrong."},
                    "err_msg": TEXT,
                },
                required=["err_code"],
            ),
        },
    )

    def open(self, body: bytes, request: Request) -> OpenedRequest:
        return OpenedRequest(body)

    def key(self, opened: OpenedRequest) -> str | int | None:
        return None

    def read(self, opened: OpenedRequest, reader: RequestReader, *, most_rows: int) -> PredictionInput:
        return reader.from_feasigns(opened.body, most_rows=most_rows)

    def answer(self, result: PredictionResult, opened: OpenedRequest) -> Response:
        return Response(200, encode(result))

    def failure(self, error: RequestError, opened: OpenedRequest | None) -> Response:
        return error_in_body(error, encode_error(error))


def encode(result: PredictionResult) -> bytes:
    """The first label is the click that prob1 is about."""
    clicks = result.probability[:, 0].tolist()
    predictions = [{"prob0": 1.0 - click, "prob1": click} for click in clicks]
    return msgspec.json.encode({"predictions": predictions, "err_code": 0, "err_msg": ""})


def encode_error(error: RequestError) -> bytes:
    """The body of a refusal. For rows that cannot be read, ElasticCTR's own words: its clients look for them."""
    message = "Query cube for embeddings error" if error.reason == "rows_unavailable" else str(error)
    return msgspec.json.encode({"predictions": [], "err_code": _FAILED, "err_msg": message})
