"""The Open Inference Protocol, version 2, over REST: https://github.com/kserve/open-inference-protocol

An input is a column of the log, an output the probability. The binary extension puts arrays behind the JSON as they lie
in memory; the header Inference-Header-Content-Length then says where the JSON ends. Inputs are read by native code
straight into rows; here is what is left: the outputs that are wanted, answers, and what there is to be told of a model.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import msgspec
import numpy as np

from clickline import __version__
from clickline._native import Refused, Tensors, json_floats, read_infer_request
from clickline.config.loading.suggestions import suggestion
from clickline.net.request_errors import RequestError, refuse, refuse_all
from clickline.serve.prediction import PredictionResult

if TYPE_CHECKING:
    from clickline.data.schema import Schema

OUTPUT = "probability"
_SINGLE = {"criteo", "csv"}
"""Formats whose columns hold one value, unless a slot has a separator."""
_T = TypeVar("_T")


class Tensor(NamedTuple):
    """One input. Its data are bytes as the binary extension has them, or a list of values, nested or not."""

    name: str
    datatype: str
    shape: Sequence[int]
    data: memoryview | bytes | Sequence[Any]
    starts: Sequence[int] | None = None
    """Where each row's values start, and the end, if rows have different numbers of them; then `shape` is not read."""


class _Loaded(Protocol):
    @property
    def schema(self) -> Schema: ...


class RequestedOutput(msgspec.Struct):
    name: str
    parameters: dict[str, Any] = {}


@dataclass(frozen=True, slots=True)
class V2Request:
    """A request to infer. `inputs` are for FeatureReader.from_tensors."""

    inputs: Tensors
    id: str = ""
    outputs: Sequence[RequestedOutput] = ()
    parameters: dict[str, Any] = field(default_factory=dict)
    binary_output: bool = False


_outputs = msgspec.json.Decoder(list[RequestedOutput])
_parameters = msgspec.json.Decoder(dict[str, Any])
_text = msgspec.json.Decoder(str)


def decode(body: bytes, header_length: int | None) -> V2Request:
    """`header_length` is the header Inference-Header-Content-Length, None if there is none: then all is JSON."""
    if header_length is not None and header_length < 0:
        raise refuse("malformed", f"Inference-Header-Content-Length must be at least 0, got {header_length}.")
    try:
        inputs, id_, outputs, parameters = read_infer_request(body, header_length)
    except Refused as error:
        raise refusal_of(error) from None
    if id_ is None and outputs is None and parameters is None:
        return V2Request(inputs)
    asked = _outputs_of(outputs)
    given = _decoded(_parameters, parameters, "parameters", {})
    binary = given.get("binary_data_output") is True
    if asked:
        binary = asked[0].parameters.get("binary_data", binary) is True
    return V2Request(inputs, _decoded(_text, id_, "id", ""), asked, given, binary)


def encode(answer: PredictionResult, request: V2Request) -> tuple[bytes, int | None]:
    """The body of an answer, and the length of its JSON if binary data follow."""
    output: dict[str, Any] = {"name": OUTPUT, "datatype": "FP32", "shape": answer.probability.shape}
    raw = b""
    if request.binary_output:
        raw = np.ascontiguousarray(answer.probability, "<f4").tobytes()
        output["parameters"] = {"binary_data_size": len(raw)}
    else:
        output["data"] = msgspec.Raw(json_floats(np.ascontiguousarray(answer.probability)))
    body: dict[str, Any] = {"model_name": answer.model, "model_version": str(answer.version)}
    if request.id:
        body["id"] = request.id
    body["parameters"] = {"version": answer.version, "tag": answer.tag}
    body["outputs"] = [output]
    header = msgspec.json.encode(body)
    return (header + raw, len(header)) if request.binary_output else (header, None)


def refusal_of(error: Refused, *, features: Sequence[str] = ()) -> RequestError:
    """What native code refused. `features` that there are, to suggest one for a name that is none."""
    reason, message, unknown, further, stopped = error.args
    mistakes = [
        (why, f"{said}; {suggestion(name, features, kind='features')}" if name else said)
        for why, said, name in ((reason, message, unknown), *further)
    ]
    return refuse_all(mistakes, complete=not stopped)


def server_metadata() -> dict[str, Any]:
    """What GET /v2 says."""
    return {"name": "clickline", "version": __version__, "extensions": ["binary_tensor_data"]}


def model_metadata(loaded: _Loaded, name: str, versions: Iterable[int]) -> dict[str, Any]:
    """What GET /v2/models/{name} says. Inputs are the preferred types: any other is taken as well."""
    schema = loaded.schema
    return {
        "name": name,
        "versions": [str(version) for version in versions],
        "platform": "clickline_onnx",
        "inputs": _inputs(schema),
        "outputs": [{"name": OUTPUT, "datatype": "FP32", "shape": [-1, len(schema.labels)]}],
    }


def _inputs(schema: Schema) -> list[dict[str, Any]]:
    inputs: dict[str, dict[str, Any]] = {}
    for slot in schema.slots:
        several = schema.format not in _SINGLE or slot.separator
        column = slot.column or slot.name
        inputs.setdefault(column, {"name": column, "datatype": "BYTES", "shape": [-1, -1] if several else [-1]})
    for dense in schema.dense:
        column = dense.column or dense.name
        shape = [-1, dense.size] if dense.size > 1 else [-1]
        inputs.setdefault(column, {"name": column, "datatype": "FP32", "shape": shape})
    return list(inputs.values())


def _outputs_of(given: bytes | None) -> list[RequestedOutput]:
    asked = _decoded(_outputs, given, "outputs", [])
    if len(asked) > 1 or any(output.name != OUTPUT for output in asked):
        names = ", ".join(repr(output.name) for output in asked)
        raise refuse("malformed", f"The only output is '{OUTPUT}', but the request asks for {names}.")
    return asked


def _decoded(decoder: msgspec.json.Decoder[_T], given: bytes | None, what: str, default: _T) -> _T:
    if given is None:
        return default
    try:
        return decoder.decode(given)
    except msgspec.DecodeError as error:
        raise refuse("malformed", f"'{what}' of the request is not what it must be: {error}.") from None
