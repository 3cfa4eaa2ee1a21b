"""JSON decoded into declared types, by any number of threads.

msgspec learns the fields of a struct when it first decodes one, and two threads that are both first crash the process
(msgspec 0.22; `tests/files/test_typed_json.py` shows it). So each type is learnt once, under one lock.
"""

from __future__ import annotations

import threading
from typing import Any, TypeVar, overload

import msgspec

_T = TypeVar("_T")
_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}
_lock = threading.Lock()


_Text = bytes | bytearray | memoryview | msgspec.Raw


@overload
def decode_json(content: _Text, kind: type[_T]) -> _T: ...
@overload
def decode_json(content: _Text, kind: Any) -> Any: ...  # a union
def decode_json(content: _Text, kind: Any) -> Any:
    """The value that the JSON text stands for; msgspec.MsgspecError if it is not of this type."""
    return _decoder(kind).decode(content)


@overload
def convert_json(values: object, kind: type[_T]) -> _T: ...
@overload
def convert_json(values: object, kind: Any) -> Any: ...  # a union
def convert_json(values: object, kind: Any) -> Any:
    """The same for JSON that was parsed into dictionaries and lists already."""
    _decoder(kind)
    return msgspec.convert(values, kind)


def _decoder(kind: type[_T]) -> msgspec.json.Decoder[_T]:
    known = _decoders.get(kind)
    if known is None:
        with _lock:
            known = _decoders.setdefault(kind, msgspec.json.Decoder(kind))
    return known
