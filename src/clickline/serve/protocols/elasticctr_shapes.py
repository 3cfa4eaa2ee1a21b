"""The shapes in which the older systems ask and are answered, so that their clients need not change.

ElasticCTRPredictionService: features by slot as 64-bit feasigns; two probabilities of each instance, of no click and of
a click; errors come with HTTP 200 and an err_code. GeneralModelService: tensors by the name of a feed variable, which
here is a column of the log.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec
import numpy as np

from clickline._native import json_floats, json_member
from clickline.net.request_errors import RequestError, refuse
from clickline.serve.prediction import PredictionResult
from clickline.serve.protocols.open_inference import OUTPUT, Tensor

_DATATYPES = {0: "INT64", 1: "FP32", 2: "INT32", 3: "FP64", 4: "INT16", 5: "FP16", 7: "UINT8", 8: "INT8", 9: "BOOL"}
_TEXT = 20
"""elem_type of a Tensor: these and text. The type 6, bf16, has no counterpart."""
_FAILED = -1


class GeneralTensor(msgspec.Struct):
    """A tensor of the older shape; values are in the field of their type."""

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


class _General(msgspec.Struct):
    tensor: list[GeneralTensor] = []
    fetch_var_names: list[str] = []


_general = msgspec.json.Decoder(_General)


def decode_general(body: bytes, *, known: Collection[str]) -> list[Tensor]:
    """Inputs of a GeneralModelService request, for FeatureReader.from_tensors. `known` are the columns there are."""
    try:
        request = _general.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise refuse("malformed", f"The body is no request of GeneralModelService: {error}.") from None
    unknown = [name for name in request.fetch_var_names if name != OUTPUT]
    if unknown:
        raise refuse("malformed", f"There is no output '{unknown[0]}' to fetch; the only one is '{OUTPUT}'.")
    return [_tensor(tensor, known) for tensor in request.tensor]


def log_id_of(body: bytes) -> int:
    """The log_id of a request, which its answer repeats; 0 if there is none."""
    given = json_member(body, "log_id") or ""
    return int(given) if given.isascii() and given.isdigit() and len(given) < 20 else 0


def encode_general(answer: PredictionResult, *, log_id: int = 0) -> bytes:
    tensor = {
        "float_data": msgspec.Raw(json_floats(np.ascontiguousarray(answer.probability))),
        "shape": answer.probability.shape,
        "elem_type": 1,
        "name": OUTPUT,
        "alias_name": OUTPUT,
    }
    body: dict[str, Any] = {"outputs": [{"tensor": [tensor], "engine_name": answer.model}], "err_no": 0, "err_msg": ""}
    body |= {"profile_time": [], "log_id": log_id, "tag": answer.tag, "version": answer.version}
    return msgspec.json.encode(body)


def encode_general_error(error: RequestError, *, log_id: int = 0) -> bytes:
    body = {"outputs": [], "err_no": error.status, "err_msg": str(error), "profile_time": [], "log_id": log_id}
    return msgspec.json.encode(body)


def encode_elastic(answer: PredictionResult) -> bytes:
    """The first label is the click that prob1 is about."""
    clicks = answer.probability[:, 0].tolist()
    predictions = [{"prob0": 1.0 - click, "prob1": click} for click in clicks]
    return msgspec.json.encode({"predictions": predictions, "err_code": 0, "err_msg": ""})


def encode_elastic_error(error: RequestError) -> bytes:
    """For an answer of status 200, as the older server has it."""
    message = "Query cube for embeddings error" if error.reason == "rows_unavailable" else str(error)
    return msgspec.json.encode({"predictions": [], "err_code": _FAILED, "err_msg": message})


def _tensor(tensor: GeneralTensor, known: Collection[str]) -> Tensor:
    name = tensor.alias_name if tensor.alias_name in known else tensor.name or tensor.alias_name
    starts = tensor.lod or None
    if tensor.elem_type == _TEXT:
        return Tensor(name, "BYTES", tensor.shape, tensor.data, starts)
    datatype = _DATATYPES.get(tensor.elem_type)
    if datatype is None:
        expected = ", ".join(f"{number} ({name})" for number, name in (_DATATYPES | {_TEXT: "text"}).items())
        raise refuse("wrong_type", f"Tensor '{name}' has the elem_type {tensor.elem_type}; known ones: {expected}.")
    if tensor.tensor_content:
        return Tensor(name, datatype, tensor.shape, tensor.tensor_content, starts)
    return Tensor(name, datatype, tensor.shape, _values(tensor, name, datatype), starts)


def _values(tensor: GeneralTensor, name: str, datatype: str) -> list[Any]:
    if datatype == "INT64":
        try:
            return [int(value) for value in tensor.int64_data]  # as text by programs whose numbers have 53 bits
        except ValueError as error:
            raise refuse("wrong_type", f"int64_data of tensor '{name}' must be integers: {error}.") from None
    if datatype == "FP32":
        return tensor.float_data
    if datatype == "FP64":
        return tensor.float64_data
    if datatype == "BOOL":
        return tensor.bool_data
    return tensor.int_data
