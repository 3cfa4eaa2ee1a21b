"""`seek`, Cube's read by HTTP: keys of one table to values of the version in service."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from clickline.cube.server.loaded_versions import ServedVersion
from clickline.cube.server.server_metrics import LONG_VALUE, HttpReadCounters

if TYPE_CHECKING:
    from clickline import _native

NOT_FOUND = 4294967295
"""-1, as Cube writes it."""
_MOST_KEYS = 100_000
_TOGETHER = 1024
LARGEST_ANSWER = 32 << 20
"""Bytes of all values of an answer: no token is needed to ask, and values may be of any size."""


class SoughtValue(TypedDict):
    """One value of an answer, in base64."""

    status: int
    value: str


class SeekAnswer(TypedDict):
    """An answer: the values in the order of the keys, and the version that all of them are of."""

    values: list[SoughtValue]
    version: str


def seek(view: ServedVersion, asked: Mapping[str, Any], counters: HttpReadCounters) -> SeekAnswer:
    """Answer a request. Raises ValueError if something is wrong with it."""
    keys = _keys(asked.get("keys"))
    if not view.tables:
        counters.count(keys=len(keys), missing=len(keys), long_values=0)
        return {"values": [{"status": NOT_FOUND, "value": ""} for _ in keys], "version": ""}
    status, found = values_of(view.tables[_table(view, asked.get("table"))], keys)
    values: list[SoughtValue] = [
        {"status": 0, "value": base64.b64encode(value).decode("ascii")}
        if ok == 0
        else {"status": NOT_FOUND, "value": ""}
        for ok, value in zip(status.tolist(), found, strict=True)
    ]
    counters.count(
        keys=len(keys),
        missing=int(np.count_nonzero(status)),
        long_values=sum(len(value) > LONG_VALUE for value in found),
    )
    return {"values": values, "version": str(view.version) if view.version else ""}


def values_of(table: _native.Layers, keys: NDArray[np.uint64]) -> tuple[NDArray[np.uint8], list[bytes]]:
    """Status and bytes of each key, whatever the values' size. Raises ValueError if there are too many of them."""
    statuses: list[NDArray[np.uint8]] = []
    values: list[bytes] = []
    size = 0
    for first in range(0, len(keys), _TOGETHER):
        # In groups, so that memory is bounded by the limit and one group, whatever the keys ask for.
        status, offsets, content = table.lookup_values(keys[first : first + _TOGETHER])
        size += len(content)
        if size > LARGEST_ANSWER:
            raise ValueError(f"the values of these keys have more than {LARGEST_ANSWER} bytes; ask for fewer at a time")
        whole = content.tobytes()
        statuses.append(status)
        values += [whole[start:end] for start, end in itertools.pairwise(offsets.tolist())]
    return np.concatenate(statuses) if statuses else np.zeros(0, np.uint8), values


def _table(view: ServedVersion, wanted: Any) -> str:
    """The table that is named, or the first by name: Cube has only one."""
    if wanted is None:
        return min(view.tables)
    if not isinstance(wanted, str) or wanted not in view.tables:
        raise ValueError(f"no table {wanted!r}; tables: {', '.join(sorted(view.tables))}")
    return wanted


def _keys(given: Any) -> NDArray[np.uint64]:
    if not isinstance(given, list) or len(given) > _MOST_KEYS:
        raise ValueError(f"keys must be a list of at most {_MOST_KEYS} numbers")
    try:
        keys = [int(key) for key in given]
    except (TypeError, ValueError, OverflowError):
        raise ValueError("keys must be numbers from 0 to 2^64 - 1") from None
    # int() also takes 1.5 and true, which would silently be other keys.
    if any(isinstance(key, float | bool) for key in given) or any(not 0 <= key < 2**64 for key in keys):
        raise ValueError("keys must be numbers from 0 to 2^64 - 1")
    return np.array(keys, np.uint64)
