"""What a file server counts, for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

_METHODS = ("GET", "HEAD", "PUT")


class FileMetrics:
    """A registry of its own, so that several servers may live in one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "clickline_files_requests", "Requests answered", ["method", "status"], registry=self.registry
        )
        self._seconds = Histogram(
            "clickline_files_first_byte_seconds", "Time until an answer began", registry=self.registry
        )
        self.sent = Counter("clickline_files_bytes_sent", "Bytes of bodies sent", registry=self.registry)
        self.received = Counter("clickline_files_bytes_received", "Bytes of uploads received", registry=self.registry)
        self.digests = Gauge("clickline_files_digests", "SHA-256 digests computed", registry=self.registry)
        self._uploads = Gauge("clickline_files_uploads_under_way", "Uploads under way", registry=self.registry)
        self.under_way = 0
        ProcessCollector(registry=self.registry)

    def answered(self, method: str, status: int, seconds: float) -> None:
        self._requests.labels(method if method in _METHODS else "other", str(status)).inc()
        self._seconds.observe(seconds)

    @contextmanager
    def upload(self) -> Iterator[None]:
        self.under_way += 1
        self._uploads.set(self.under_way)
        try:
            yield
        finally:
            self.under_way -= 1
            self._uploads.set(self.under_way)
