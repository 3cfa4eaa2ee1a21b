"""The Open Inference Protocol, version 2, over REST: https://github.com/kserve/open-inference-protocol

An input is a column of the log, an output the probability. The binary extension puts arrays behind the JSON as they lie
in memory; the header Inference-Header-Content-Length then says where the JSON ends. Inputs are read by native code
straight into rows; this module reads which outputs are wanted, writes answers, and describes models.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar

import msgspec
import numpy as np

from clickline import __version__
from clickline._native import Refused, Tensors, json_floats, read_infer_request
from clickline.net.predictor_documents import ModelMetadata, ServerMetadata, TensorMetadata
from clickline.net.request_errors import RequestError, refuse
from clickline.serve.http.http_messages import Request, Response, error_response
from clickline.serve.native_refusals import refusal_of
from clickline.serve.prediction import PredictionInput, PredictionResult, RequestReader
from clickline.serve.protocols.prediction_protocol import OpenedRequest, ProtocolDescription

if TYPE_CHECKING:
    from clickline.data.schema import Schema

OUTPUT = "probability"
OUTPUTS = (OUTPUT, "value")
"""Names that a prediction may be asked for by: its own, which is the second where labels are numbers, or the other."""
_BINARY = b"application/octet-stream"
_HEADER_LENGTH = b"Inference-Header-Content-Length"
_LONGEST_LENGTH = 12
_SINGLE = {"criteo", "csv"}
"""Formats whose columns hold one value, unless a slot has a separator."""
_T = TypeVar("_T")


class _HasSchema(Protocol):
    @property
    def schema(self) -> Schema: ...


class RequestedOutput(msgspec.Struct):
    """An output that a request asks for."""

    name: str
    parameters: dict[str, object] = {}


@dataclass(frozen=True, slots=True)
class InferRequest:
    """A request to infer. `inputs` are for RequestReader.from_tensors."""

    inputs: Tensors
    id: str = ""
    outputs: Sequence[RequestedOutput] = ()
    parameters: Mapping[str, object] = field(default_factory=dict)
    binary_output: bool = False


_outputs = msgspec.json.Decoder(list[RequestedOutput])
_parameters = msgspec.json.Decoder(dict[str, object])
_text = msgspec.json.Decoder(str)


class OpenInference:
    """Open Inference Protocol v2, with or without binary tensors; a PredictionProtocol."""

    name = "v2"
    paths = ("/v2/models/{model}/infer", "/v2/models/{model}/versions/{version}/infer")
    description = ProtocolDescription(
        summary="Predict, Open Inference Protocol v2",
        request="InferRequest",
        response="InferResponse",
        example={
            "inputs": [
                {"name": "C1", "datatype": "BYTES", "shape": [2], "data": ["68fd1e64", "05db9164"]},
                {"name": "I1", "datatype": "FP32", "shape": [2], "data": [3, 0]},
            ]
        },
        binary=True,
    )

    def open(self, body: bytes, request: Request) -> OpenedRequest:
        length = request.headers.get(b"inference-header-content-length")
        return OpenedRequest(b"", decode(body, None if length is None else _length(length)))

    def key(self, opened: OpenedRequest) -> str | int | None:
        key = opened.content.parameters.get("key")
        return key if isinstance(key, str | int) else None

    def read(self, opened: OpenedRequest, reader: RequestReader, *, most_rows: int) -> PredictionInput:
        return reader.from_tensors(opened.content.inputs, most_rows=most_rows)

    def answer(self, result: PredictionResult, opened: OpenedRequest) -> Response:
        body, length = encode(result, opened.content)
        if length is None:
            return Response(200, body)
        return Response(200, body, content_type=_BINARY, headers=((_HEADER_LENGTH, b"%d" % length),))

    def failure(self, error: RequestError, opened: OpenedRequest | None) -> Response:
        return error_response(error)


def decode(body: bytes, header_length: int | None) -> InferRequest:
    """Open a request. `header_length` is the header Inference-Header-Content-Length; without it, all is JSON."""
    if header_length is not None and header_length < 0:
        raise refuse("malformed", f"Inference-Header-Content-Length must be at least 0, got {header_length}")
    try:
        inputs, id_, outputs, parameters = read_infer_request(body, header_length)
    except Refused as error:
        raise refusal_of(error) from None
    # Native code has read all of a request that has inputs alone, so no JSON decoder runs for it.
    if id_ is None and outputs is None and parameters is None:
        return InferRequest(inputs)
    requested = _requested_outputs(outputs)
    given = _decoded(_parameters, parameters, "parameters", {})
    binary = given.get("binary_data_output") is True
    if requested:  # what is said of the output itself overrides what is said of all outputs
        binary = requested[0].parameters.get("binary_data", binary) is True
    return InferRequest(inputs, _decoded(_text, id_, "id", ""), requested, given, binary)


def encode(result: PredictionResult, request: InferRequest) -> tuple[bytes, int | None]:
    """The body of an answer, and the length of its JSON if binary data follow."""
    name = request.outputs[0].name if request.outputs else result.output
    output: dict[str, object] = {"name": name, "datatype": "FP32", "shape": result.probability.shape}
    raw = b""
    if request.binary_output:
        raw = np.ascontiguousarray(result.probability, "<f4").tobytes()
        output["parameters"] = {"binary_data_size": len(raw)}
    else:
        output["data"] = msgspec.Raw(json_floats(np.ascontiguousarray(result.probability)))
    body: dict[str, object] = {"model_name": result.model, "model_version": str(result.version)}
    if request.id:
        body["id"] = request.id
    body["parameters"] = {"version": result.version, "tag": result.tag}
    body["outputs"] = [output]
    header = msgspec.json.encode(body)
    return (header + raw, len(header)) if request.binary_output else (header, None)


def server_metadata() -> ServerMetadata:
    """What GET /v2 answers."""
    return {"name": "clickline", "version": __version__, "extensions": ["binary_tensor_data"]}


def model_metadata(model_version: _HasSchema, name: str, versions: Iterable[int]) -> ModelMetadata:
    """What GET /v2/models/{name} answers. Inputs have their preferred types: any other is accepted as well."""
    schema = model_version.schema
    return {
        "name": name,
        "versions": [str(version) for version in versions],
        "platform": "clickline_onnx",
        "inputs": _inputs(schema),
        "outputs": [{"name": schema.output, "datatype": "FP32", "shape": [-1, len(schema.labels)]}],
    }


def _inputs(schema: Schema) -> list[TensorMetadata]:
    inputs: dict[str, TensorMetadata] = {}
    for slot in schema.slots:
        several = schema.format not in _SINGLE or slot.separator
        column = slot.column or slot.name
        inputs.setdefault(column, {"name": column, "datatype": "BYTES", "shape": [-1, -1] if several else [-1]})
    for dense in schema.dense:
        column = dense.column or dense.name
        shape = [-1, dense.size] if dense.size > 1 else [-1]
        inputs.setdefault(column, {"name": column, "datatype": "FP32", "shape": shape})
    return list(inputs.values())


def _requested_outputs(given: bytes | None) -> list[RequestedOutput]:
    requested = _decoded(_outputs, given, "outputs", [])
    if len(requested) > 1 or any(output.name not in OUTPUTS for output in requested):
        names = ", ".join(repr(output.name) for output in requested)
        raise refuse("malformed", f"the only output is {OUTPUT!r}, but the request asks for {names}")
    return requested


def _decoded(decoder: msgspec.json.Decoder[_T], given: bytes | None, what: str, default: _T) -> _T:
    if given is None:
        return default
    try:
        return decoder.decode(given)
    except msgspec.DecodeError as error:
        raise refuse("malformed", f"{what!r} of the request has a wrong type: {error}") from None


def _length(text: bytes) -> int:
    if not text.isdigit() or len(text) > _LONGEST_LENGTH:
        shown = text[:20].decode("latin-1")
        raise refuse("malformed", f"Inference-Header-Content-Length must be a number of bytes, got {shown!r}")
    return int(text)
