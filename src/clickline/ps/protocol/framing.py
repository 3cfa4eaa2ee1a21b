"""How a message lies in bytes: a JSON head with a typed struct, and arrays that follow it as they lie in memory.

    u32 length of the JSON ‖ JSON {"facts": {…}, "arrays": [[name, dtype, shape], …]} ‖ arrays, each aligned to 8 bytes

Packing copies nothing: the wire sends the buffers one after the other. Unpacked arrays are views into the message,
and read-only. Arrays that travel in 16 bits have the type fp16 or bf16 and a fourth entry, the power of two that they
were multiplied by; they are unpacked as float32. Beware: a peer may send anything, so every size is checked against
the message before an array is made of it.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Collection, Mapping
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from clickline import _native
from clickline.errors import PeerError
from clickline.files.typed_json import decode_json

Arrays = dict[str, NDArray[Any]]
T = TypeVar("T")
_TYPES = ("float32", "float16", "float64", "uint64", "int64", "int32", "uint16", "uint8")
_HALVES = ("fp16", "bf16")
_LARGEST_FP16 = 2.0**15
_LENGTH = struct.Struct("<I")
_JSON_LIMIT = 64 << 20


class _Head(msgspec.Struct):
    """The JSON of a message. The struct in it is decoded only once its type is known."""

    facts: msgspec.Raw
    arrays: list[list[Any]]


def pack(
    message: msgspec.Struct | Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]] | None = None,
    *,
    wire: str = "fp32",
    halved: Collection[str] = (),
) -> list[Any]:
    """A message as the buffers that make it up. Where the `wire` has 16 bits, arrays that are named `halved` do."""
    listed = {name: np.asarray(array, order="C") for name, array in (arrays or {}).items()}
    shapes: list[list[Any]] = []
    for name, array in listed.items():
        if wire in _HALVES and name in halved and array.dtype == np.float32:
            listed[name], scale = _narrowed(array, wire)
            shapes.append([name, wire, list(array.shape), scale])
        else:
            shapes.append([name, array.dtype.name, list(array.shape)])
    head = msgspec.json.encode({"facts": message, "arrays": shapes})
    buffers: list[Any] = [_LENGTH.pack(len(head)) + head + bytes(-(_LENGTH.size + len(head)) % 8)]
    for array in listed.values():
        if array.nbytes:
            buffers.append(array.reshape(-1).view(np.uint8))
            if array.nbytes % 8:
                buffers.append(bytes(-array.nbytes % 8))
    return buffers


def _narrowed(array: NDArray[np.float32], wire: str) -> tuple[NDArray[Any], float]:
    """Numbers in 16 bits, and the power of two that they were multiplied by.

    fp16 has few exponents: a mean gradient would vanish, a sum overflow. So its numbers are moved to the upper end of
    them, exactly, whatever their size.
    """
    numbers, scale = array.reshape(-1), 1.0
    if wire == "fp16" and array.size:
        largest = max(float(numbers.max()), -float(numbers.min()))
        if 0 < largest < math.inf:
            # A power of two changes no digit of a number. Between 2^-100 and 2^100, so that it is an ordinary float32:
            # the array is multiplied and divided in that type.
            scale = 2.0 ** max(min(math.floor(math.log2(_LARGEST_FP16 / largest)), 100), -100)
            numbers = numbers * np.float32(scale)
    halves = np.empty(numbers.shape, np.uint16)
    _native.narrow(numbers, halves, wire=wire)
    return halves, scale


def _widened(body: memoryview, wire: str, shape: list[int], scale: float) -> NDArray[np.float32]:
    halves = np.frombuffer(body, np.uint16)
    numbers = np.empty(halves.shape, np.float32)
    _native.widen(halves, numbers, wire=wire)
    if scale != 1.0:
        numbers /= np.float32(scale)
    return numbers.reshape(shape)


def unpack(message: Any, kind: type[T]) -> tuple[T, Arrays]:
    """A message as a struct of this kind, and its arrays. Raises PeerError for anything else."""
    body = memoryview(message)
    try:
        (length,) = _LENGTH.unpack_from(body)
        if length > min(_JSON_LIMIT, len(body) - _LENGTH.size):
            raise ValueError(f"its head takes {length} bytes of {len(body)}")
        head = decode_json(body[_LENGTH.size : _LENGTH.size + length], _Head)
        content = decode_json(head.facts, kind)
        return content, _arrays(head.arrays, body, begin=-(-(_LENGTH.size + length) // 8) * 8)
    except (struct.error, ValueError, TypeError, RecursionError) as error:
        raise PeerError(f"a message cannot be read: {error}") from error


def _arrays(entries: list[list[Any]], body: memoryview, *, begin: int) -> Arrays:
    """The arrays that lie in the message from byte `begin` on: views, except for those in 16 bits."""
    arrays: Arrays = {}
    for name, kind, shape, *scale in entries:
        if kind not in _TYPES and kind not in _HALVES:
            raise ValueError(f"array {name!r} has type {kind!r}")
        # Counted in Python's integers, which do not wrap around, before anything is made of it.
        count = 1
        for size in shape:
            if not isinstance(size, int) or size < 0:
                raise ValueError(f"array {name!r} has shape {shape}")
            count *= size
        nbytes = count * (2 if kind in _HALVES else np.dtype(kind).itemsize)
        if nbytes > len(body) - begin:
            raise ValueError(f"array {name!r} takes {nbytes} bytes, {len(body) - begin} are left")
        part = body[begin : begin + nbytes]
        if kind in _HALVES:
            arrays[name] = _widened(part, kind, shape, _scale(scale))
        else:
            arrays[name] = np.frombuffer(part, dtype=kind).reshape(shape)
        begin += -(-nbytes // 8) * 8
    return arrays


def _scale(entry: list[Any]) -> float:
    if len(entry) != 1 or not isinstance(entry[0], int | float) or not 0 < entry[0] < math.inf:
        raise ValueError(f"an array in 16 bits has the scale {entry!r}")
    return float(entry[0])
