"""Rows of raw values as the body of a request, in each form that a predictor reads; and predictions out of answers.

A row is a dict of column → value: text, number, boolean, None, or a list of these. A value means the same in each form.
Beware: NaN and infinity are sent as null by the JSON forms, as pandas and numpy have no other way to say "nothing
there"; the server counts them among the missing.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from clickline.errors import PeerError

if TYPE_CHECKING:
    from clickline.net.protos import open_inference_pb2 as messages

Row = Mapping[str, Any]
_RAW = {"INT64": "<i8", "FP64": "<f8", "BOOL": "?"}


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a version says about some rows."""

    probabilities: list[float] | list[dict[str, float]]
    """One for each row; for a model with several labels a dict of them."""
    version: int
    """The one that all of these come from."""
    model: str
    variant: str = ""
    """Tag of the variant that answered, where traffic is split."""
    missing: int = 0
    """Values that the rows did not have and that were filled in."""


def _plain(value: Any) -> Any:
    """numpy's values as Python's own."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"a value of type {type(value).__name__} cannot be sent; use text, numbers, booleans or None")


_encoder = msgspec.json.Encoder(enc_hook=_plain)


def rows_of(rows: Row | Sequence[Row]) -> list[Row]:
    """One row stands for a list of one."""
    if isinstance(rows, Mapping):
        return [rows]
    if isinstance(rows, str | bytes) or not isinstance(rows, Sequence) or not all(isinstance(r, Mapping) for r in rows):
        raise TypeError(f"rows must be a dict or a list of dicts, but got {type(rows).__name__}")
    return list(rows)


def plain_body(rows: Sequence[Row], *, key: str | int | None = None) -> bytes:
    """The form for people: {"instances": […]}."""
    body: dict[str, Any] = {"instances": rows}
    if key is not None:
        body["key"] = key
    return _encoder.encode(body)


class _Plain(msgspec.Struct):
    predictions: list[float | dict[str, float]]
    version: int
    model: str = ""
    variant: str = ""
    missing: int = 0


_plain_decoder = msgspec.json.Decoder(_Plain)


def read_plain(body: bytes) -> Prediction:
    """The prediction in an answer to `plain_body`."""
    try:
        said = _plain_decoder.decode(body)
    except msgspec.DecodeError as error:
        raise PeerError(f"the answer is no prediction: {error}; is this a predictor?") from None
    return Prediction(said.predictions, said.version, said.model, said.variant, said.missing)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Column:
    """One input of the Open Inference Protocol; values row by row, as many in each."""

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
    """Rows turned into columns. What a row does not have is null where the form has it (`nulls`), else empty text."""
    names = dict.fromkeys(name for row in rows for name in row)
    return [_column(name, [row.get(name) for row in rows], nulls) for name in names]


def _column(name: str, cells: list[Any], nulls: bool) -> Column:
    several = any(isinstance(cell, list | tuple | np.ndarray) for cell in cells)
    if not several:
        datatype, values = _alike(cells, nulls)
        return Column(name, datatype, [len(cells)], values)
    lists = [list(cell) if isinstance(cell, list | tuple | np.ndarray) else [cell] for cell in cells]
    width = max(1, *map(len, lists))
    datatype, values = _alike([value for cell in lists for value in (*cell, *[None] * (width - len(cell)))], nulls)
    return Column(name, datatype, [len(cells), width], values)


def _alike(cells: list[Any], nulls: bool) -> tuple[str, list[Any]]:
    """A type that holds all of them: numbers if all are, else text."""
    cells = [cell.item() if isinstance(cell, np.generic) else cell for cell in cells]
    types = {type(cell) for cell in cells}
    if nulls:
        types.discard(type(None))
    if types == {int} and all(cell is None or -(2**63) <= cell < 2**63 for cell in cells):
        return "INT64", cells
    if types == {float} or (types == {float, int} and nulls):
        return "FP64", cells
    if types == {bool}:
        return "BOOL", cells
    return "BYTES", [None if cell is None and nulls else _text(cell) for cell in cells]


def _text(cell: Any) -> str:
    """A value as a log has it, which means the same."""
    if cell is None or (isinstance(cell, float) and not math.isfinite(cell)):
        return ""
    if isinstance(cell, bool):
        return str(int(cell))
    return cell if isinstance(cell, str) else _encoder.encode(cell).decode()


def v2_body(rows: Sequence[Row], *, key: str | int | None = None) -> bytes:
    """Open Inference Protocol, as JSON alone."""
    columns = columns_of(rows, nulls=True)
    inputs = [{"name": c.name, "datatype": c.datatype, "shape": c.shape, "data": c.values} for c in columns]
    return _encoder.encode({"inputs": inputs} | _parameters(key))


def binary_body(rows: Sequence[Row], *, key: str | int | None = None) -> tuple[bytes, int]:
    """Open Inference Protocol with binary tensors both ways: the body, and how long its JSON is."""
    inputs, raws = [], []
    for column in columns_of(rows):
        raws.append(column.raw())
        size = {"binary_data_size": len(raws[-1])}
        inputs.append({"name": column.name, "datatype": column.datatype, "shape": column.shape, "parameters": size})
    parameters = {"parameters": {"binary_data_output": True} | _parameters(key).get("parameters", {})}
    head = _encoder.encode({"inputs": inputs} | parameters)
    return head + b"".join(raws), len(head)


def _parameters(key: str | int | None) -> dict[str, Any]:
    return {} if key is None else {"parameters": {"key": key}}


class _Output(msgspec.Struct):
    name: str
    shape: list[int]
    data: list[float] = []


class _Said(msgspec.Struct):
    version: int = 0
    tag: str = ""


class _V2(msgspec.Struct):
    model_name: str
    model_version: str
    outputs: list[_Output]
    parameters: _Said = msgspec.field(default_factory=_Said)


_v2_decoder = msgspec.json.Decoder(_V2)


def read_v2(body: bytes, head: int | None = None) -> Prediction:
    """The prediction in an answer of the Open Inference Protocol; `head` bytes of it are JSON, all if None."""
    try:
        said = _v2_decoder.decode(body if head is None else body[:head])
        output = said.outputs[0]
        data = output.data if head is None else np.frombuffer(body, "<f4", offset=head).tolist()
        version = said.parameters.version or int(said.model_version)
    except (msgspec.DecodeError, IndexError, ValueError) as error:
        raise PeerError(f"the answer is no prediction: {error}; is this a predictor?") from None
    width = output.shape[1] if len(output.shape) > 1 else 1
    if len(data) != output.shape[0] * width:
        raise PeerError(f"the answer has {len(data)} probabilities, but says that its shape is {output.shape}")
    if width > 1:  # this protocol does not name the labels
        named = [{str(i): p for i, p in enumerate(data[at : at + width])} for at in range(0, len(data), width)]
        return Prediction(named, version, said.model_name, said.parameters.tag)
    return Prediction(data, version, said.model_name, said.parameters.tag)


def infer_request(rows: Sequence[Row], *, model: str, version: int | None = None) -> messages.ModelInferRequest:
    """The same for gRPC."""
    from clickline.net.protos import open_inference_pb2 as messages

    request = messages.ModelInferRequest(model_name=model, model_version="" if version is None else str(version))
    for column in columns_of(rows):
        request.inputs.add(name=column.name, datatype=column.datatype, shape=column.shape)
        request.raw_input_contents.append(column.raw())
    return request
