"""Messages of gRPC from and to what the rest of the server speaks of: tensors, answers, metadata.

Whichever way values are sent, typed contents or raw ones, they reach the reader as raw bytes: one way to decode them.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

from clickline.net.protos import open_inference_pb2 as messages
from clickline.net.request_errors import refuse
from clickline.serve.prediction import PredictionResult
from clickline.serve.protocols.open_inference import OUTPUT, Tensor

_CONTENTS = {
    "BOOL": ("bool_contents", "?"),
    "INT8": ("int_contents", "<i1"),
    "INT16": ("int_contents", "<i2"),
    "INT32": ("int_contents", "<i4"),
    "INT64": ("int64_contents", "<i8"),
    "UINT8": ("uint_contents", "<u1"),
    "UINT16": ("uint_contents", "<u2"),
    "UINT32": ("uint_contents", "<u4"),
    "UINT64": ("uint64_contents", "<u8"),
    "FP32": ("fp32_contents", "<f4"),
    "FP64": ("fp64_contents", "<f8"),
    "BYTES": ("bytes_contents", ""),
}
"""By datatype: the field that holds its values, and how they lie in memory. FP16 has no field and is sent raw."""

_SENT_AS = {"<i1": "<i4", "<i2": "<i4", "<u1": "<u4", "<u2": "<u4"}
"""What travels in a wider field."""


def tensors_of(request: Any) -> list[Tensor]:
    """The inputs of a ModelInferRequest."""
    if asked := [one.name for one in request.outputs if one.name != OUTPUT]:
        raise refuse("malformed", f"The only output is '{OUTPUT}', but the request asks for '{asked[0]}'.")
    inputs, raw = request.inputs, request.raw_input_contents
    if raw and len(raw) != len(inputs):
        raise refuse("malformed", f"{len(inputs)} inputs, but {len(raw)} raw_input_contents; send one for each")
    if raw and any(one.HasField("contents") for one in inputs):
        raise refuse("malformed", "some inputs have contents beside raw_input_contents; send all in one way")
    data = [memoryview(one) for one in raw] if raw else [_raw(one) for one in inputs]
    return [
        Tensor(name=one.name, datatype=one.datatype, shape=tuple(one.shape), data=values)
        for one, values in zip(inputs, data, strict=True)
    ]


def _raw(tensor: Any) -> memoryview:
    if tensor.datatype not in _CONTENTS:
        known = ", ".join(_CONTENTS)
        raise refuse(
            "wrong_type",
            f"input '{tensor.name}': contents of datatype '{tensor.datatype}'; known are {known}, and FP16 as raw",
        )
    field, layout = _CONTENTS[tensor.datatype]
    given = [name.name for name, _ in tensor.contents.ListFields()]
    if given not in ([], [field]):
        raise refuse(
            "wrong_type", f"input '{tensor.name}' is {tensor.datatype}, so its values belong in {field}, not {given[0]}"
        )
    values = getattr(tensor.contents, field)
    if not layout:
        return memoryview(b"".join(struct.pack("<I", len(value)) + value for value in values))
    wide = np.array(values, _SENT_AS.get(layout, layout))
    narrow = wide.astype(layout)
    if layout in _SENT_AS and not np.array_equal(narrow, wide):
        out = wide[narrow != wide][0]
        raise refuse("wrong_type", f"input '{tensor.name}' is {tensor.datatype}, which cannot hold {out}")
    return memoryview(narrow.tobytes())


def answer_of(answer: PredictionResult, request: Any) -> Any:
    """The ModelInferResponse: raw if values were sent so, else typed."""
    probability = np.ascontiguousarray(answer.probability, "<f4")
    said = messages.ModelInferResponse(model_name=answer.model, model_version=str(answer.version), id=request.id)
    said.parameters["version"].int64_param = answer.version
    if answer.tag:
        said.parameters["tag"].string_param = answer.tag
    output = said.outputs.add(name=OUTPUT, datatype="FP32", shape=probability.shape)
    if request.raw_input_contents:
        said.raw_output_contents.append(probability.tobytes())
    else:
        output.contents.fp32_contents.extend(probability.ravel().tolist())
    return said


def metadata_of(said: Mapping[str, Any]) -> Any:
    """The ModelMetadataResponse of what HTTP answers as JSON."""
    response = messages.ModelMetadataResponse(
        name=said["name"], versions=[str(one) for one in said.get("versions", ())], platform=said.get("platform", "")
    )
    for field in ("inputs", "outputs"):
        for one in said[field]:
            getattr(response, field).add(name=one["name"], datatype=one["datatype"], shape=one["shape"])
    return response
