"""Messages between processes: a few named facts, and arrays that follow them as they lie in memory.

    u32 length of the JSON ‖ JSON {"facts": {…}, "arrays": [[name, dtype, shape], …]} ‖ arrays, each aligned to 8 bytes

Packing copies nothing: the wire sends the buffers one after the other. Unpacked arrays are views into the message,
and read-only. Beware: a peer may send anything, so every size is checked against the message before an array is made
of it.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clickline.errors import PeerError

_TYPES = ("float32", "float16", "float64", "uint64", "int64", "int32", "uint16", "uint8")
_LENGTH = struct.Struct("<I")
_JSON_LIMIT = 64 << 20


def pack(facts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]] | None = None) -> list[Any]:
    """A message as the buffers that make it up."""
    listed = {name: np.asarray(array, order="C") for name, array in (arrays or {}).items()}
    shapes = [[name, array.dtype.name, list(array.shape)] for name, array in listed.items()]
    head = json.dumps({"facts": facts, "arrays": shapes}).encode()
    buffers: list[Any] = [_LENGTH.pack(len(head)) + head + bytes(-(_LENGTH.size + len(head)) % 8)]
    for array in listed.values():
        if array.nbytes:
            buffers.append(array.reshape(-1).view(np.uint8))
            if array.nbytes % 8:
                buffers.append(bytes(-array.nbytes % 8))
    return buffers


def unpack(message: Any) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Facts and arrays of a message."""
    body = memoryview(message)
    try:
        (length,) = _LENGTH.unpack_from(body)
        if length > min(_JSON_LIMIT, len(body) - _LENGTH.size):
            raise ValueError(f"its facts take {length} bytes of {len(body)}")
        head = json.loads(bytes(body[_LENGTH.size : _LENGTH.size + length]))
        place = -(-(_LENGTH.size + length) // 8) * 8
        arrays = {}
        for name, kind, shape in head["arrays"]:
            if kind not in _TYPES:
                raise ValueError(f"array {name!r} has type {kind!r}")
            count = 1
            for size in shape:
                if not isinstance(size, int) or size < 0:
                    raise ValueError(f"array {name!r} has shape {shape}")
                count *= size
            nbytes = count * np.dtype(kind).itemsize
            if nbytes > len(body) - place:
                raise ValueError(f"array {name!r} takes {nbytes} bytes, {len(body) - place} are left")
            arrays[name] = np.frombuffer(body[place : place + nbytes], dtype=kind).reshape(shape)
            place += -(-nbytes // 8) * 8
        return head["facts"], arrays
    except (struct.error, ValueError, KeyError, TypeError) as error:
        raise PeerError(f"a message cannot be read: {error}") from error
