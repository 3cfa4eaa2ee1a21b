"""The messages of gRPC, converted from and to tensors, results and metadata.

Whichever way values are sent, as typed contents or raw, they reach the reader as raw bytes: one way to decode them.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from clickline.net.predictor_documents import ModelMetadata
from clickline.net.protos import open_inference_pb2 as messages
from clickline.net.request_errors import refuse
from clickline.serve.prediction import PredictionResult, Tensor
from clickline.serve.protocols.open_inference import OUTPUT, OUTPUTS

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
"""Types that are sent in a wider field."""


def tensors_of(request: Any) -> list[Tensor]:
    """The inputs of a ModelInferRequest."""
    if others := [output.name for output in request.outputs if output.name not in OUTPUTS]:
        raise refuse("malformed", f"the only output is {OUTPUT!r}, but the request asks for {others[0]!r}")
    inputs, raw = request.inputs, request.raw_input_contents
    if raw and len(raw) != len(inputs):
        raise refuse("malformed", f"{len(inputs)} inputs, but {len(raw)} raw_input_contents; send one for each")
    if raw and any(tensor.HasField("contents") for tensor in inputs):
        raise refuse("malformed", "some inputs have contents beside raw_input_contents; send all in one way")
    data = [memoryview(content) for content in raw] if raw else [_raw(tensor) for tensor in inputs]
    return [
        Tensor(name=tensor.name, datatype=tensor.datatype, shape=tuple(tensor.shape), data=values)
        for tensor, values in zip(inputs, data, strict=True)
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
    # A value that the narrow type cannot hold would wrap around and be another category.
    if layout in _SENT_AS and not np.array_equal(narrow, wide):
        out = wide[narrow != wide][0]
        raise refuse("wrong_type", f"input '{tensor.name}' is {tensor.datatype}, which cannot hold {out}")
    return memoryview(narrow.tobytes())


def response_of(result: PredictionResult, request: Any) -> Any:
    """The ModelInferResponse: raw if the request was, else typed."""
    probability = np.ascontiguousarray(result.probability, "<f4")
    response = messages.ModelInferResponse(model_name=result.model, model_version=str(result.version), id=request.id)
    response.parameters["version"].int64_param = result.version
    if result.tag:
        response.parameters["tag"].string_param = result.tag
    name = request.outputs[0].name if request.outputs else result.output
    output = response.outputs.add(name=name, datatype="FP32", shape=probability.shape)
    if request.raw_input_contents:
        response.raw_output_contents.append(probability.tobytes())
    else:
        output.contents.fp32_contents.extend(probability.ravel().tolist())
    return response


def metadata_of(metadata: ModelMetadata) -> Any:
    """The ModelMetadataResponse of what HTTP answers as JSON."""
    response = messages.ModelMetadataResponse(
        name=metadata["name"], versions=metadata["versions"], platform=metadata["platform"]
    )
    for field, tensors in ((response.inputs, metadata["inputs"]), (response.outputs, metadata["outputs"])):
        for tensor in tensors:
            field.add(name=tensor["name"], datatype=tensor["datatype"], shape=tensor["shape"])
    return response
