"""Paddle Serving's GeneralModelService over HTTP, so that its clients need not change: a PredictionProtocol of the
server.

Tensors come by the name of a feed variable, which here is a column of the log; what is wrong with a request is told in
the body, with status 200 and an err_no.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec
import numpy as np

from clickline._native import json_floats, json_member
from clickline.net.request_errors import RequestError, refuse
from clickline.serve.http.http_messages import Request, Response, error_in_body
from clickline.serve.openapi.json_schemas import INTEGER, TEXT, array_of, object_of
from clickline.serve.prediction import PredictionInput, PredictionResult, RequestReader, Tensor
from clickline.serve.protocols.open_inference import OUTPUT
from clickline.serve.protocols.prediction_protocol import OpenedRequest, ProtocolDescription

_DATATYPES = {0: "INT64", 1: "FP32", 2: "INT32", 3: "FP64", 4: "INT16", 5: "FP16", 7: "UINT8", 8: "INT8", 9: "BOOL"}
_TEXT = 20
"""elem_type of a Tensor: these and text. The type 6, bf16, has no counterpart."""


class GeneralTensor(msgspec.Struct):
    """A tensor in Paddle Serving's shape; values are in the field of their type."""

    name: str = ""
    alias_name: str = ""
    elem_type: int = 0
    shape: list[int] = []
    lod: list[int] = []
    int64_data: list[int | str] = []
    int_data: list[int] = []
    float_data: list[float] = []
    float64_data: list[float] = []
    uint32_data: list[int] = []
    bool_data: list[bool] = []
    data: list[str] = []
    tensor_content: bytes = b""


class _GeneralRequest(msgspec.Struct):
    tensor: list[GeneralTensor] = []
    fetch_var_names: list[str] = []


_decoder = msgspec.json.Decoder(_GeneralRequest)


class GeneralModelService:
    """`{"tensor": [{"name": "C1", "int64_data": [5], "shape": [1, 1]}], "fetch_var_names": ["probability"]}`"""

    name = "general"
    paths = ("/GeneralModelService/inference", "/GeneralModelService/debug")
    description = ProtocolDescription(
        summary="Predict, in the shape of the general model service",
        request="GeneralRequest",
        response="GeneralResponse",
        error="GeneralResponse",
        example={"tensor": [{"name": "I1", "alias_name": "I1", "float_data": [3.0], "elem_type": 1, "shape": [1, 1]}]},
        schemas={
            "GeneralRequest": object_of(
                {
                    "tensor": array_of({"type": "object"}, minItems=1),
                    "fetch_var_names": array_of(TEXT),
                    "profile_server": {"type": "boolean"},
                    "log_id": INTEGER,
                },
                required=["tensor"],
                text="The shape of Paddle's general model service.",
            ),
            "GeneralResponse": object_of(
                {
                    "outputs": array_of(object_of({"tensor": array_of({"type": "object"}), "engine_name": TEXT})),
                    "err_no": {**INTEGER, "description": "0, or another number when err_msg says what is wrong."},
                    "err_msg": TEXT,
                },
                required=["err_no", "err_msg"],
            ),
        },
    )

    def open(self, body: bytes, request: Request) -> OpenedRequest:
        # Read on its own before the body is decoded: a refusal repeats the log_id whatever is wrong with the rest.
        return OpenedRequest(body, log_id_of(body))

    def key(self, opened: OpenedRequest) -> str | int | None:
        return None

    def read(self, opened: OpenedRequest, reader: RequestReader, *, most_rows: int) -> PredictionInput:
        return reader.from_tensors(decode(opened.body, known=reader.columns), most_rows=most_rows)

    def answer(self, result: PredictionResult, opened: OpenedRequest) -> Response:
        return Response(200, encode(result, log_id=opened.content))

    def failure(self, error: RequestError, opened: OpenedRequest | None) -> Response:
        log_id = 0 if opened is None else opened.content
        return error_in_body(error, encode_error(error, log_id=log_id))


def decode(body: bytes, *, known: Collection[str]) -> list[Tensor]:
    """The inputs of a request, for RequestReader.from_tensors. `known`: the columns that the version reads."""
    try:
        request = _decoder.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise refuse("malformed", f"the body is not a request of GeneralModelService: {error}") from None
    unknown = [name for name in request.fetch_var_names if name != OUTPUT]
    if unknown:
        raise refuse("malformed", f"there is no output {unknown[0]!r} to fetch; the only one is {OUTPUT!r}")
    return [_tensor(tensor, known) for tensor in request.tensor]


def log_id_of(body: bytes) -> int:
    """The log_id of a request, which its answer repeats; 0 if there is none."""
    given = json_member(body, "log_id") or ""
    return int(given) if given.isascii() and given.isdigit() and len(given) < 20 else 0


def encode(result: PredictionResult, *, log_id: int = 0) -> bytes:
    tensor = {
        # Numbers are formatted natively, without a Python object for each.
        "float_data": msgspec.Raw(json_floats(np.ascontiguousarray(result.probability))),
        "shape": result.probability.shape,
        "elem_type": 1,
        "name": OUTPUT,
        "alias_name": OUTPUT,
    }
    body: dict[str, object] = {
        "outputs": [{"tensor": [tensor], "engine_name": result.model}],
        "err_no": 0,
        "err_msg": "",
    }
    body |= {"profile_time": [], "log_id": log_id, "tag": result.tag, "version": result.version}
    return msgspec.json.encode(body)


def encode_error(error: RequestError, *, log_id: int = 0) -> bytes:
    body = {"outputs": [], "err_no": error.status, "err_msg": str(error), "profile_time": [], "log_id": log_id}
    return msgspec.json.encode(body)


def _tensor(tensor: GeneralTensor, known: Collection[str]) -> Tensor:
    # Paddle's `name` is the variable inside the model, `alias_name` the one that clients feed; either may be a column.
    name = tensor.alias_name if tensor.alias_name in known else tensor.name or tensor.alias_name
    starts = tensor.lod or None
    if tensor.elem_type == _TEXT:
        return Tensor(name, "BYTES", tensor.shape, tensor.data, starts)
    datatype = _DATATYPES.get(tensor.elem_type)
    if datatype is None:
        expected = ", ".join(f"{number} ({name})" for number, name in (_DATATYPES | {_TEXT: "text"}).items())
        raise refuse("wrong_type", f"tensor {name!r} has the elem_type {tensor.elem_type}; known ones: {expected}")
    if tensor.tensor_content:
        return Tensor(name, datatype, tensor.shape, tensor.tensor_content, starts)
    return Tensor(name, datatype, tensor.shape, _values(tensor, name, datatype), starts)


def _values(tensor: GeneralTensor, name: str, datatype: str) -> Sequence[object]:
    if datatype == "INT64":
        try:
            return [int(value) for value in tensor.int64_data]  # sent as text by programs whose numbers have 53 bits
        except ValueError as error:
            raise refuse("wrong_type", f"int64_data of tensor {name!r} must be integers: {error}") from None
    if datatype == "FP32":
        return tensor.float_data
    if datatype == "FP64":
        return tensor.float64_data
    if datatype == "BOOL":
        return tensor.bool_data
    return tensor.int_data
