"""Prometheus metrics of the operator itself."""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

_BUCKETS = (0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class OperatorMetrics:
    """Counters that the parts of the operator add to."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.reconciles = Counter(
            "clickline_operator_reconciles",
            "Looks at a job, by how they ended: done, conflict (the job had changed meanwhile) or failed",
            ["result"],
            registry=self.registry,
        )
        self.reconcile_seconds = Histogram(
            "clickline_operator_reconcile_seconds",
            "Seconds that a look at a job takes, with all requests",
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.requests = Counter(
            "clickline_operator_api_requests",
            "Requests to the API server; watches, which kopf keeps, are not among them",
            ["verb", "resource", "code"],
            registry=self.registry,
        )
        self.throttled = Counter(
            "clickline_operator_api_throttled",
            "Requests that had to wait: for a free connection (client), or because the API server said so (server)",
            ["by"],
            registry=self.registry,
        )
        self.throttled_seconds = Counter(
            "clickline_operator_api_throttled_seconds", "Seconds of such waits", ["by"], registry=self.registry
        )
        self.poll_failures = Counter(
            "clickline_operator_poll_failures",
            "Pods that did not tell the progress of their run when asked",
            registry=self.registry,
        )

    def watch_jobs(self, phases: Callable[[], Counts[str]], *, leads: Callable[[], bool]) -> None:
        """Have jobs counted at each scrape."""
        self.registry.register(_Gauges(phases, leads))

    def waited(self, by: str, seconds: float) -> None:
        self.throttled.labels(by).inc()
        self.throttled_seconds.labels(by).inc(seconds)


class _Gauges(Collector):
    def __init__(self, phases: Callable[[], Mapping[str, int]], leads: Callable[[], bool]) -> None:
        self._phases, self._leads = phases, leads

    def collect(self) -> Iterator[Metric]:
        jobs = GaugeMetricFamily("clickline_operator_jobs", "Jobs by phase", labels=["phase"])
        for phase, count in sorted(self._phases().items()):
            jobs.add_metric([phase], count)
        yield jobs
        text = "1 if this operator works, 0 if it stands by for another one"
        yield GaugeMetricFamily("clickline_operator_leader", text, value=float(self._leads()))

    def describe(self) -> list[Metric]:
        return []
