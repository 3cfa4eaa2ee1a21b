"""Metrics of a cube server: what was read over the wire and by HTTP, and what is in service."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from clickline.cube.server.cube_process import CubeProcess

LONG_VALUE = 1024
"""Bytes; HTTP reads of longer values are counted."""


class HttpReadCounters:
    """Counts of the reads by HTTP; the native server counts those of the wire. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.requests = self.keys = self.missing = self.long_values = self.most_keys = 0

    def count(self, *, keys: int, missing: int, long_values: int) -> None:
        with self._lock:
            self.requests += 1
            self.keys += keys
            self.missing += missing
            self.long_values += long_values
            self.most_keys = max(self.most_keys, keys)


class ServerMetrics(Collector):
    """All metrics of a server, collected when they are read. The help texts begin with what Cube calls them."""

    def __init__(self, process: CubeProcess) -> None:
        self._process = process

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        versions, reads = self._process.versions, self._process.http_reads
        wire: dict[str, int] = dict(self._process.native.counts())
        view = versions.view
        data = sum(table.file_bytes for table in view.tables.values())
        counters: dict[str, tuple[str, float]] = {
            "requests": ("request_num: requests, by wire and HTTP", reads.requests + wire.get("gets", 0)),
            "keys": ("total_key_num: keys asked for", reads.keys + wire.get("keys", 0)),
            "missing_keys": ("unfound_key_num: keys without a row", reads.missing + wire.get("missing", 0)),
            "long_values": (f"long_value_num: values over {LONG_VALUE} bytes, by HTTP", reads.long_values),
        }
        gauges: dict[str, tuple[str, float]] = {
            "keys_per_request_max": ("keys_per_request_num: most keys of one HTTP request", reads.most_keys),
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
