"""Bodies of requests from rows of raw values, in each protocol that a predictor speaks; and predictions from replies.

A row is a dict of column → value: text, number, boolean, None, or a list of these. A value means the same in each
protocol. Beware: NaN and infinity are sent as null by the JSON protocols, since pandas and numpy mark missing values by
NaN; the server counts them among the missing.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import msgspec
import numpy as np

from clickline.errors import PeerError

if TYPE_CHECKING:
    from clickline.net.protos import open_inference_pb2 as messages

Row = Mapping[str, Any]
_RAW = {"INT64": "<i8", "FP64": "<f8", "BOOL": "?"}


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a version predicts for some rows."""

    probabilities: list[float] | list[dict[str, float]]
    """One for each row; a dict by label for a model with several labels."""
    version: int
    """The version that all of them come from."""
    model: str
    variant: str = ""
    """Tag of the variant that answered, where traffic is split."""
    missing: int = 0
    """Values that the rows lacked and that were filled in."""
    output: str = "probability"
    """What they are: `value`, of a model whose labels are numbers."""


def _python_value(value: Any) -> Any:
    """A value of numpy as Python's own."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"a value of type {type(value).__name__} cannot be sent; use text, numbers, booleans or None")


_encoder = msgspec.json.Encoder(enc_hook=_python_value)


def rows_of(rows: Row | Sequence[Row]) -> list[Row]:
    """One row stands for a list of one."""
    if isinstance(rows, Mapping):
        return [rows]
    if isinstance(rows, str | bytes) or not isinstance(rows, Sequence) or not all(isinstance(r, Mapping) for r in rows):
        raise TypeError(f"rows must be a dict or a list of dicts, but got {type(rows).__name__}")
    return list(rows)


def json_rows_body(rows: Sequence[Row], *, key: str | int | None = None) -> bytes:
    """The body of a request with JSON rows: {"instances": […]}."""
    body: dict[str, object] = {"instances": rows}
    if key is not None:
        body["key"] = key
    return _encoder.encode(body)


class _JsonRowsReply(msgspec.Struct):
    predictions: list[float | dict[str, float]]
    version: int
    model: str = ""
    variant: str = ""
    missing: int = 0
    output: str = "probability"


_json_rows_decoder = msgspec.json.Decoder(_JsonRowsReply)


def read_json_rows(body: bytes) -> Prediction:
    """The prediction in the reply to JSON rows."""
    try:
        reply = _json_rows_decoder.decode(body)
    except msgspec.DecodeError as error:
        raise PeerError(f"the reply is not a prediction: {error}; is this a predictor?") from None
    predictions = cast(list[float], reply.predictions)
    return Prediction(predictions, reply.version, reply.model, reply.variant, reply.missing, reply.output)


@dataclass(frozen=True, slots=True)
class Column:
    """One input of the Open Inference Protocol; its values row by row, the same number in each."""

    name: str
    datatype: str
    shape: list[int]
    values: list[Any]

    def raw(self) -> bytes:
        """Little-endian; text as its length in four bytes and the bytes."""
        if self.datatype == "BYTES":
            texts = [value.encode() for value in self.values]
            return b"".join(struct.pack("<I", len(text)) + text for text in texts)
        return np.array(self.values, _RAW[self.datatype]).tobytes()


def columns_of(rows: Sequence[Row], *, nulls: bool = False) -> list[Column]:
    """Rows turned into columns. A missing value is null where the protocol has it (`nulls`), else empty text."""
    names = dict.fromkeys(name for row in rows for name in row)
    return [_column(name, [row.get(name) for row in rows], nulls) for name in names]


def _column(name: str, cells: list[Any], nulls: bool) -> Column:
    several = any(isinstance(cell, list | tuple | np.ndarray) for cell in cells)
    if not several:
        datatype, values = _common_type(cells, nulls)
        return Column(name, datatype, [len(cells)], values)
    lists = [list(cell) if isinstance(cell, list | tuple | np.ndarray) else [cell] for cell in cells]
    width = max(1, *map(len, lists))
    # A tensor has one width for all rows, so shorter lists are filled up with missing values.
    padded = [value for cell in lists for value in (*cell, *[None] * (width - len(cell)))]
    datatype, values = _common_type(padded, nulls)
    return Column(name, datatype, [len(cells), width], values)


def _common_type(cells: list[Any], nulls: bool) -> tuple[str, list[Any]]:
    """A datatype that holds all values, and the values in it: numbers if all are, else text."""
    cells = [cell.item() if isinstance(cell, np.generic) else cell for cell in cells]
    # Exact types: bool is a subclass of int, but has a datatype of its own.
    types = {type(cell) for cell in cells}
    if nulls:
        types.discard(type(None))
    # Integers beyond 64 bits go as text: the server makes the same category of the digits.
    if types == {int} and all(cell is None or -(2**63) <= cell < 2**63 for cell in cells):
        return "INT64", cells
    # Integers among floats become FP64 only in JSON, where each keeps its own text: as a binary float, 1 might not be
    # the category 1.
    if types == {float} or (types == {float, int} and nulls):
        return "FP64", cells
    if types == {bool}:
        return "BOOL", cells
    return "BYTES", [None if cell is None and nulls else _text(cell) for cell in cells]


def _text(cell: Any) -> str:
    """A value as the text that stands for it in a log."""
    if cell is None or (isinstance(cell, float) and not math.isfinite(cell)):
        return ""
    if isinstance(cell, bool):
        return str(int(cell))
    return cell if isinstance(cell, str) else _encoder.encode(cell).decode()


def infer_body(rows: Sequence[Row], *, key: str | int | None = None) -> bytes:
    """The body of a request of the Open Inference Protocol, as JSON alone."""
    columns = columns_of(rows, nulls=True)
    inputs = [{"name": c.name, "datatype": c.datatype, "shape": c.shape, "data": c.values} for c in columns]
    return _encoder.encode({"inputs": inputs} | _parameters(key))


def binary_infer_body(rows: Sequence[Row], *, key: str | int | None = None) -> tuple[bytes, int]:
    """The same with binary tensors in both directions: the body, and the length of its JSON."""
    inputs, contents = [], []
    for column in columns_of(rows):
        contents.append(column.raw())
        size = {"binary_data_size": len(contents[-1])}
        inputs.append({"name": column.name, "datatype": column.datatype, "shape": column.shape, "parameters": size})
    parameters = {"parameters": {"binary_data_output": True} | _parameters(key).get("parameters", {})}
    head = _encoder.encode({"inputs": inputs} | parameters)
    return head + b"".join(contents), len(head)


def _parameters(key: str | int | None) -> dict[str, dict[str, str | int]]:
    return {} if key is None else {"parameters": {"key": key}}


class _Output(msgspec.Struct):
    name: str
    shape: list[int]
    data: list[float] = []


class _ReplyParameters(msgspec.Struct):
    version: int = 0
    tag: str = ""


class _InferReply(msgspec.Struct):
    model_name: str
    model_version: str
    outputs: list[_Output]
    parameters: _ReplyParameters = msgspec.field(default_factory=_ReplyParameters)


_infer_decoder = msgspec.json.Decoder(_InferReply)


def read_infer(body: bytes, head: int | None = None) -> Prediction:
    """The prediction in a reply of the Open Inference Protocol. `head`: bytes of it that are JSON; None: all."""
    try:
        reply = _infer_decoder.decode(body if head is None else body[:head])
        output = reply.outputs[0]
        data = output.data if head is None else np.frombuffer(body, "<f4", offset=head).tolist()
        # `parameters.version` is Clickline's own; the protocol itself has only the text in model_version.
        version = reply.parameters.version or int(reply.model_version)
    except (msgspec.DecodeError, IndexError, ValueError) as error:
        raise PeerError(f"the reply is not a prediction: {error}; is this a predictor?") from None
    width = output.shape[1] if len(output.shape) > 1 else 1
    if len(data) != output.shape[0] * width:
        raise PeerError(f"the reply has {len(data)} probabilities, but its shape is {output.shape}")
    if width > 1:  # this protocol does not name the labels
        named = [{str(i): p for i, p in enumerate(data[at : at + width])} for at in range(0, len(data), width)]
        return Prediction(named, version, reply.model_name, reply.parameters.tag, output=output.name)
    return Prediction(data, version, reply.model_name, reply.parameters.tag, output=output.name)


def infer_request(rows: Sequence[Row], *, model: str, version: int | None = None) -> messages.ModelInferRequest:
    """The message of a request over gRPC."""
    from clickline.net.protos import open_inference_pb2 as messages

    request = messages.ModelInferRequest(model_name=model, model_version="" if version is None else str(version))
    for column in columns_of(rows):
        request.inputs.add(name=column.name, datatype=column.datatype, shape=column.shape)
        request.raw_input_contents.append(column.raw())
    return request
