"""Prometheus metrics of one process of a run.

Nothing is counted twice: what a process reports to the coordinator is read again at each scrape, and only
given Prometheus' names here. Figures that may go down, as those of a run that goes back to a checkpoint, are gauges.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

_MIB = 1 << 20
COUNTERS = {
    "rows": ("rows", "Rows trained by this trainer"),
    "steps": ("steps", "Batches trained by this trainer"),
    "requests": ("requests", "Requests sent by a trainer, or answered by a server"),
    "retries": ("retries", "Requests sent again"),
    "reconnects": ("reconnects", "Connections made again"),
    "bytes_sent": ("bytes_sent", "Bytes sent"),
    "bytes_received": ("bytes_received", "Bytes received"),
    # Servers and trainers name these two differently. A process reports one pair, so no metric is there twice.
    "bytes_out": ("bytes_sent", "Bytes sent"),
    "bytes_in": ("bytes_received", "Bytes received"),
    "pulls": ("pulls", "Pulls answered"),
    "pushes": ("pushes", "Pushes applied"),
    "rows_pulled": ("rows_pulled", "Table rows sent to trainers"),
    "rows_pushed": ("rows_pushed", "Table rows changed by trainers"),
    "refused": ("refused", "Connections refused: wrong token, job or version"),
    "garbled": ("garbled", "Frames whose checksum was wrong"),
    "repeated": ("repeated", "Requests that came again and were not executed again"),
    "lost": ("lost", "Pushes that were applied after the checkpoint this server came back with"),
    "discarded": ("discarded", "Pushes dropped as too stale"),
}
"""What a process counts, and the metric that it is: clickline_NAME_total."""
GAUGES = {
    "rows_per_second": ("rows_per_second", "Rows trained per second, lately"),
    "queue": ("queue_depth", "Batches whose gradients are under way"),
    "staleness": ("staleness", "Mean number of other pushes between a batch's pull and its push"),
    "staleness_max": ("staleness_max", "Largest number of other pushes between a pull and a push"),
    "connections": ("connections", "Open connections"),
}
RUN = {
    "rows": ("run_rows", "Rows trained by all trainers"),
    "step": ("run_steps", "Steps taken by all trainers"),
    "epoch": ("run_epochs", "The epoch under way, or the last one, from 1; 0 before the first"),
    "rows_per_second": ("run_rows_per_second", "Rows trained per second by all trainers"),
    "repeated_rows": ("run_repeated_rows", "Rows trained again after a death"),
    "lost_pushes": ("run_lost_pushes", "Pushes that restarted servers had lost"),
    "restarts": ("run_restarts", "Processes that came in another's place"),
    "generation": ("run_generation", "1, and 1 more for each time that all went back to a checkpoint"),
}
STATES = ("joining", "well", "slow", "dead", "done")


class Labelled:
    """Makes metrics with the labels of one process of one run."""

    def __init__(self, **labels: str) -> None:
        self._labels = labels

    def counter(self, name: str, text: str, value: float) -> Metric:
        family = CounterMetricFamily(f"clickline_{name}", text, labels=list(self._labels))
        family.add_metric(list(self._labels.values()), value)
        return family

    def gauge(self, name: str, text: str, value: float) -> Metric:
        return self.gauges(name, text, label="", values={"": value})

    def gauges(self, name: str, text: str, *, label: str, values: dict[str, float]) -> Metric:
        """One for each value of one more label."""
        names = [*self._labels, label] if label else list(self._labels)
        family = GaugeMetricFamily(f"clickline_{name}", text, labels=names)
        for each, value in values.items():
            family.add_metric([*self._labels.values(), each] if label else list(self._labels.values()), value)
        return family


def member_metrics(make: Labelled, stats: Mapping[str, Any]) -> Iterator[Metric]:
    """Of a trainer or a server, from what it tells the coordinator."""
    figures = {**stats, **stats.get("counters", {})}
    for key, (name, text) in COUNTERS.items():
        if key in figures:
            yield make.counter(name, text, figures[key])
    for key, (name, text) in GAUGES.items():
        if key in figures:
            yield make.gauge(name, text, figures[key])
    if stats.get("tables"):
        yield make.gauges("table_rows", "Rows of a table on this server", label="table", values=stats["tables"])
    if "memory_mib" in stats:  # not before the process has joined
        yield _memory(make, stats["memory_mib"])


def run_metrics(make: Labelled, status: Mapping[str, Any]) -> Iterator[Metric]:
    """Of the process that knows the run, from the status that it writes."""
    for key, (name, text) in RUN.items():
        yield make.gauge(name, text, status[key])
    checkpoint = status["checkpoint"] or {"cuts": 0, "seconds": 0.0, "pause_seconds": 0.0}
    yield make.counter("checkpoints", "Checkpoints of this run", checkpoint["cuts"])
    yield make.gauge("checkpoint_seconds", "How long the last checkpoint took", checkpoint["seconds"])
    yield make.gauge("pause_seconds", "How long trainers stood still for it", checkpoint["pause_seconds"])
    states = [member["state"] for member in status["members"]]
    counts = {state: float(states.count(state)) for state in STATES}
    yield make.gauges("members", "Processes of the run", label="state", values=counts)
    if status["pieces"] is not None:
        # Names of trainers that hold some, and what is known of pieces that were set aside, are not numbers.
        numbers = {state: float(value) for state, value in status["pieces"].items() if isinstance(value, int)}
        pieces = {**numbers, "set_aside": len(status["pieces"]["set_aside"])}
        yield make.gauges("pieces", "Pieces of this epoch's data", label="state", values=pieces)
    if status["members"][0]["role"] == "trainer":  # it trains, and knows the run as well
        yield from member_metrics(make, status["members"][0])
    else:
        yield _memory(make, status["members"][0]["memory_mib"])


def merged(*groups: Iterable[Metric]) -> Iterator[Metric]:
    """Metrics of two members in one process: a name may come once only, with the samples of both."""
    families: dict[str, Metric] = {}
    for family in chain.from_iterable(groups):
        if (known := families.setdefault(family.name, family)) is not family:
            known.samples.extend(family.samples)
    return iter(families.values())


def _memory(make: Labelled, mib: float) -> Metric:
    return make.gauge("memory_peak_bytes", "The most resident memory this process has had", mib * _MIB)
