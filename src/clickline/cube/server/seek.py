"""`seek`, the older read: keys of one table to values of the version in service; and what is counted of it."""

from __future__ import annotations

import base64
import itertools
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from clickline.cube.server.loaded_versions import ServedVersion

if TYPE_CHECKING:
    from clickline import _native
    from clickline.cube.server.cube_process import CubeProcess

NOT_FOUND = 4294967295
"""-1, as the older answer writes it."""
LONG_VALUE = 1024
_MOST_KEYS = 100_000
_TOGETHER = 1024
LARGEST_ANSWER = 32 << 20
"""Bytes of all values of an answer: who asks needs no token, and values may be of any size."""


def seek(view: ServedVersion, asked: dict[str, Any], tally: Tally) -> dict[str, Any]:
    """Answer a request's JSON; ValueError says what is wrong with it. All values are of one version."""
    keys = _keys(asked.get("keys"))
    version = str(view.version) if view.version else ""
    if not view.tables:
        tally.count(keys=len(keys), missing=len(keys), long=0)
        values = [{"status": NOT_FOUND, "value": ""} for _ in keys]
    else:
        table = view.tables[_table(view, asked.get("table"))]
        status, found = values_of(table, keys)
        values = [
            {"status": 0, "value": base64.b64encode(value).decode("ascii")}
            if ok == 0
            else {"status": NOT_FOUND, "value": ""}
            for ok, value in zip(status.tolist(), found, strict=True)
        ]
        tally.count(keys=len(keys), missing=int(np.count_nonzero(status)), long=sum(len(v) > LONG_VALUE for v in found))
    return {"values": values, "version": version}


def values_of(table: _native.Layers, keys: NDArray[np.uint64]) -> tuple[NDArray[np.uint8], list[bytes]]:
    """Status and bytes of each key, whatever the values' size. Raises ValueError if there are too many of them."""
    statuses: list[NDArray[np.uint8]] = []
    values: list[bytes] = []
    size = 0
    for first in range(0, len(keys), _TOGETHER):
        status, offsets, content = table.lookup_values(keys[first : first + _TOGETHER])
        size += len(content)
        if size > LARGEST_ANSWER:
            raise ValueError(f"the values of these keys have more than {LARGEST_ANSWER} bytes; ask for fewer at a time")
        whole = content.tobytes()
        statuses.append(status)
        values += [whole[start:end] for start, end in itertools.pairwise(offsets.tolist())]
    return np.concatenate(statuses) if statuses else np.zeros(0, np.uint8), values


def _table(view: ServedVersion, wanted: Any) -> str:
    """The table that is named, or the first by name: the older server has but one."""
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
    if any(isinstance(key, float | bool) for key in given) or any(not 0 <= key < 2**64 for key in keys):
        raise ValueError("keys must be numbers from 0 to 2^64 - 1")
    return np.array(keys, np.uint64)


class Tally(Collector):
    """The older server's figures under our names; those of the wire are added when somebody looks."""

    def __init__(self, process: CubeProcess) -> None:
        self._process = process
        self._lock = threading.Lock()
        self._requests = self._keys = self._missing = self._long = self._largest = 0

    def count(self, *, keys: int, missing: int, long: int) -> None:
        with self._lock:
            self._requests += 1
            self._keys += keys
            self._missing += missing
            self._long += long
            self._largest = max(self._largest, keys)

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        versions = self._process.versions
        counts: dict[str, int] = dict(self._process.native.counts())
        view = versions.view
        data = sum(table.file_bytes for table in view.tables.values())
        counters: dict[str, tuple[str, float]] = {
            "requests": ("request_num: requests, by wire and HTTP", self._requests + counts.get("gets", 0)),
            "keys": ("total_key_num: keys asked for", self._keys + counts.get("keys", 0)),
            "missing_keys": ("unfound_key_num: keys without a row", self._missing + counts.get("missing", 0)),
            "long_values": (f"long_value_num: values over {LONG_VALUE} bytes, by HTTP", self._long),
        }
        gauges: dict[str, tuple[str, float]] = {
            "keys_per_request_max": ("keys_per_request_num: most keys of one HTTP request", self._largest),
            "load_seconds": ("data_load_time: how long the last load took", versions.load_seconds),
            "data_bytes": ("data_size: bytes of the version in service", data),
            "version": ("The version in service; 0: none", view.version),
            "switch": ("Number of the last switch", view.number),
            "versions_loaded": ("Versions that could be served", len(versions.loaded)),
        }
        for name, (text, value) in counters.items():
            yield CounterMetricFamily(f"clickline_cube_{name}", text, value=value)
        for name, (text, value) in gauges.items():
            yield GaugeMetricFamily(f"clickline_cube_{name}", text, value=value)
