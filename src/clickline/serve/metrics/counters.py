"""Counters of a worker, in a file of doubles that is mapped into memory, so that any worker can sum those of all.

A file holds its own index (the offset of each metric and label), and a worker that is restarted continues in the file
of the one before it: counters never go back. Adding costs well under a microsecond; a lock keeps two threads from
adding to the same number at once, since Python may switch between reading and writing it.

The file begins with a magic mark and the number of entries, then come the doubles, then the index, one fixed record
each: an entry is written before the number of entries is, so that a reader never sees half of one.
"""

from __future__ import annotations

import mmap
import struct
import threading
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING

from clickline._native import Histogram

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MARK = b"CLCOUNT1"
_KEY = 380
_ENTRY = struct.Struct(f"<I{_KEY}s")
_COUNT = struct.Struct("<Q")
_NUMBERS = 65_536
# More than the longest histogram takes, since those can end up there as well.
_OVERFLOW = 64
"""The first numbers take what has no room any more: a request must not fail for want of a counter."""
_ENTRIES = 2048
_INDEX = 16 + 8 * _NUMBERS
_SEPARATOR = "\x1e"
_WITHOUT_SEPARATORS = {0x1E: " ", 0x1F: " "}
SIZE = _INDEX + _ENTRY.size * _ENTRIES
MOST_LABELS = 256
"""Series of one metric; the rest are counted as `OTHERS`, so that names in requests cannot fill the file."""
OTHERS = "other"
SECONDS = (
    *(5e-5, 1e-4, 2e-4, 3e-4, 5e-4, 7.5e-4, 1e-3, 1.5e-3, 2e-3, 3e-3, 5e-3, 7.5e-3, 1e-2),
    *(1.5e-2, 2e-2, 3e-2, 5e-2, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0),
)
PROBABILITIES = (
    *(0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.25, 0.3),
    *(0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0),
)
DIFFERENCES = (1e-6, 1e-5, 1e-4, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
ROWS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0)


@dataclass(frozen=True, slots=True)
class Metric:
    """The definition of a metric."""

    kind: str
    text: str
    labels: tuple[str, ...] = ()
    """Names of its labels; a series has their values, in this order, joined by `series`."""
    buckets: tuple[float, ...] = ()
    merge: str = "sum"
    """How the gauges of several workers are merged: sum, min or max."""

    @property
    def length(self) -> int:
        """How many numbers it takes: one; a histogram one for each bucket, one for what is above, and the sum."""
        return len(self.buckets) + 2 if self.buckets else 1


MODEL = ("model",)
WHO = ("model", "variant")
COPIED = ("model", "shadow")
METRICS: Mapping[str, Metric] = {
    "clickline_requests_total": Metric("counter", "Requests for predictions", ("protocol", *WHO)),
    "clickline_failures_total": Metric("counter", "Requests that were refused or failed", ("reason", *WHO)),
    "clickline_seconds": Metric("histogram", "Time that a stage of a request took", ("stage", *WHO), SECONDS),
    "clickline_predicted_probability": Metric("histogram", "What was predicted", (*WHO, "label"), PROBABILITIES),
    "clickline_rows_total": Metric("counter", "Rows predicted for"),
    "clickline_keys_total": Metric("counter", "Different keys whose rows were asked for"),
    "clickline_missing_keys_total": Metric("counter", "Keys that have no row in the version"),
    "clickline_missing_values_total": Metric("counter", "Values that requests left out and that were filled in"),
    "clickline_batch_rows": Metric("histogram", "Rows of the batches that were computed", (), ROWS),
    "clickline_version": Metric("gauge", "Version in service; the lowest, while workers differ", MODEL, merge="min"),
    "clickline_data_age_seconds": Metric("gauge", "Age of the newest data behind the version", MODEL, merge="max"),
    "clickline_version_loads_total": Metric("counter", "Versions taken into service"),
    "clickline_version_failures_total": Metric("counter", "Versions that could not be loaded or failed their check"),
    "clickline_load_seconds": Metric("histogram", "Time that loading and checking a version took", (), SECONDS),
    "clickline_rows_unavailable_total": Metric("counter", "Reads of rows that the cube could not answer"),
    "clickline_shadow_total": Metric("counter", "Requests that a shadow model was given too", (*COPIED, "result")),
    "clickline_shadow_difference": Metric(
        "histogram", "Absolute difference of a shadow's predictions from the model's", (*COPIED, "label"), DIFFERENCES
    ),
    "clickline_shadow_seconds": Metric("histogram", "Time that a shadow took to answer", COPIED, SECONDS),
    "clickline_row_cache_total": Metric("counter", "Rows looked for in the cache before the cube", (*MODEL, "result")),
    "clickline_request_cache_total": Metric("counter", "Requests looked for in the cache", (*MODEL, "result")),
    "clickline_connections": Metric("gauge", "Open connections"),
    "clickline_connections_total": Metric("counter", "Connections accepted"),
    "clickline_workers": Metric("gauge", "Workers that run"),
}


class Counters:
    """The counters of this worker; a MetricSink. Any thread may call it."""

    def __init__(self, path: Path) -> None:
        path.touch(mode=0o600)
        with path.open("r+b") as file:
            file.truncate(SIZE)
            self._file = mmap.mmap(file.fileno(), SIZE)
        self._lock = threading.Lock()
        self._numbers = memoryview(self._file)[16:_INDEX].cast("d")
        self._offsets: dict[tuple[str, str], int] = {}
        self._histograms: dict[tuple[str, str], Histogram] = {}
        self._entries = 0
        self._free = _OVERFLOW
        if self._file[:8] == MARK:
            self._resume()
        else:
            # A new file is all zeros, so it has no entries; the mark makes it complete for readers.
            self._file[:8] = MARK

    def count(self, name: str, value: float = 1.0, label: str = "") -> None:
        # Without the lock: entries are only ever added, and a lookup in a dict is atomic.
        offset = self._offsets.get((name, label))
        if offset is None:
            offset = self._new(name, label, "counter")
        with self._lock:
            self._numbers[offset] += value

    def observe(self, name: str, seconds: float, label: str = "") -> None:
        offset = self._offsets.get((name, label))
        if offset is None:
            offset = self._new(name, label, "histogram")
        buckets = METRICS[name].buckets if name in METRICS else SECONDS
        with self._lock:
            self._numbers[offset + bisect_left(buckets, seconds)] += 1.0
            self._numbers[offset + len(buckets) + 1] += seconds

    def observe_all(self, name: str, values: NDArray[np.float32], label: str = "") -> None:
        """Count each of some values."""
        histogram = self._histograms.get((name, label))
        if histogram is None:
            histogram = self._histogram(name, label)
        histogram.add(values)  # native code with the GIL held, so no thread is between reading and writing a number

    def gauge(self, name: str, value: float, label: str = "") -> None:
        offset = self._offsets.get((name, label))
        if offset is None:
            offset = self._new(name, label, "gauge")
        # No lock: a single store that does not depend on the value before.
        self._numbers[offset] = value

    def total(self, name: str, label: str = "") -> tuple[float, float]:
        """What this worker has counted: how often, and the sum; for a counter, both are its value."""
        offset = self._offsets.get((name, label))
        if offset is None:
            return 0.0, 0.0
        with self._lock:
            last = offset + METRICS[name].length - 1
            return sum(self._numbers[offset:last]) if last > offset else self._numbers[last], self._numbers[last]

    def _new(self, name: str, label: str, kind: str) -> int:
        metric = metric_of(name, kind)
        with self._lock:
            if sum(known == name for known, _ in self._offsets) >= MOST_LABELS:
                label = OTHERS
            # Another thread may have been faster, or OTHERS has its entry already.
            if (name, label) in self._offsets:
                return self._offsets[name, label]
            key = f"{name}\x1f{label}\x1f{kind}".encode()
            if self._entries >= _ENTRIES or self._free + metric.length > _NUMBERS or len(key) > _KEY:
                return 0  # the overflow numbers
            first, self._free = self._free, self._free + metric.length
            _ENTRY.pack_into(self._file, _INDEX + self._entries * _ENTRY.size, first, key)
            self._entries += 1
            # Last, so that a reader in another process never sees half an entry.
            _COUNT.pack_into(self._file, 8, self._entries)
            self._offsets[name, label] = first
            return first

    def _histogram(self, name: str, label: str) -> Histogram:
        offset = self._offsets.get((name, label))
        if offset is None:
            offset = self._new(name, label, "histogram")
        metric = METRICS[name]
        # Two threads may both create one; both objects add to the same numbers.
        histogram = Histogram(self._numbers[offset : offset + metric.length], metric.buckets)
        self._histograms[name, label] = histogram
        return histogram

    def _resume(self) -> None:
        """Continue with the numbers that an earlier worker left."""
        for name, label, kind, first in _index(self._file):
            self._offsets[name, label] = first
            self._entries += 1
            metric = metric_of(name, kind)
            self._free = max(self._free, first + metric.length)
            if metric.kind == "gauge":  # the state of the earlier worker is over
                self._numbers[first] = nan


def metric_of(name: str, kind: str) -> Metric:
    """The definition of a metric, also of an unknown one."""
    return METRICS.get(name) or Metric(kind, "", ("label",), SECONDS if kind == "histogram" else ())


def series(*values: str) -> str:
    """The values of a metric's labels joined to one text; those at the end may be omitted."""
    return _SEPARATOR.join(value.translate(_WITHOUT_SEPARATORS) for value in values)


def values_of(label: str) -> list[str]:
    """The values that `series` has joined."""
    return label.split(_SEPARATOR)


def sum_of_workers(paths: list[Path]) -> dict[str, dict[str, list[float]]]:
    """The numbers of all files, by metric and label. A file that is not complete yet is skipped."""
    totals: dict[str, dict[str, list[float]]] = {}
    for path in paths:
        # Workers count meanwhile and take no lock for readers: buckets and sum may differ by the request under way.
        content = path.read_bytes()
        if len(content) != SIZE or content[:8] != MARK:
            continue
        numbers = memoryview(content)[16:_INDEX].cast("d")
        for name, label, kind, first in _index(content):
            metric = metric_of(name, kind)
            own = list(map(float, numbers[first : first + metric.length]))
            if own[0] != own[0]:  # NaN: a gauge that was not set since the restart
                continue
            before = totals.setdefault(name, {}).get(label, own)
            totals[name][label] = own if before is own else _merged(metric.merge, before, own)
    return totals


def _merged(how: str, first: list[float], second: list[float]) -> list[float]:
    if how == "sum":
        return [a + b for a, b in zip(first, second, strict=True)]
    return [min(first[0], second[0]) if how == "min" else max(first[0], second[0])]


def _index(content: mmap.mmap | bytes) -> Iterator[tuple[str, str, str, int]]:
    for number in range(_COUNT.unpack_from(content, 8)[0]):
        first, key = _ENTRY.unpack_from(content, _INDEX + number * _ENTRY.size)
        name, label, kind = key.rstrip(b"\0").decode().split("\x1f")
        yield name, label, kind, first
