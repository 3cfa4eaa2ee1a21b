"""Decision 18: our counters across workers and prometheus-client's multiprocess mode. `make decision-counters` runs it.

What a request counts (one counter with three labels, five histograms with three), with series that were made before,
and the page over four workers.

    counters.py library DIRECTORY SECONDS       the library's side: its mode is chosen before it is imported
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from clickline.serve.metrics.counters import SECONDS as BUCKETS
from clickline.serve.metrics.counters import Counters, series
from clickline.serve.metrics.metrics_page import page
from decision_table import DecisionTable, Options, options
from peers import output_of, scratch

COLUMNS = ("counting a request, µs", "page of 4 workers, ms", "bytes on disk")
STAGES = ("read", "queue", "rows", "network", "total")
WORKERS = 4
CALLS = 1000


def per_call(call: Callable[[], object], seconds: float, calls: int) -> float:
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        for _ in range(calls):
            call()
        times.append((time.perf_counter() - start) / calls)
    return float(np.median(times))


def figures(request: Callable[[], None], scrape: Callable[[], object], files: Path, seconds: float) -> dict[str, float]:
    counting = per_call(request, seconds / 2, CALLS) * 1e6
    scraping = per_call(scrape, seconds / 2, 1) * 1e3
    size = sum(path.stat().st_size for path in files.iterdir() if path.is_file())
    return dict(zip(COLUMNS, (counting, scraping, float(size)), strict=True))


def of_ours(directory: Path, seconds: float) -> dict[str, float]:
    workers = [Counters(directory / f"{rank}.counts") for rank in range(WORKERS)]
    request_series, stage_series = series("plain", "ctr", "a"), [series(stage, "ctr", "a") for stage in STAGES]

    def request(counts: Counters) -> None:
        counts.count("clickline_requests_total", 1.0, request_series)
        for stage in stage_series:
            counts.observe("clickline_seconds", 0.0004, stage)

    for counts in workers:
        request(counts)
    return figures(partial(request, workers[0]), partial(page, directory, times={}), directory, seconds)


def of_the_library(directory: Path, seconds: float) -> dict[str, float]:
    """In a process of its own, with the files of three further ones beside it."""
    variables = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(directory)}
    command = [sys.executable, str(Path(__file__)), "library", str(directory)]
    for _ in range(WORKERS - 1):
        output_of([*command, "0"], variables=variables)
    found: dict[str, float] = json.loads(output_of([*command, str(seconds)], variables=variables))
    return found


def library(directory: Path, seconds: float) -> dict[str, float]:
    from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
    from prometheus_client.multiprocess import MultiProcessCollector

    requests = Counter("requests_total", "Requests", ["protocol", "model", "variant"]).labels("plain", "ctr", "a")
    histogram = Histogram("seconds", "Seconds", ["stage", "model", "variant"], buckets=BUCKETS)
    stages = [histogram.labels(stage, "ctr", "a") for stage in STAGES]

    def request() -> None:
        requests.inc()
        for stage in stages:
            stage.observe(0.0004)

    def scrape() -> bytes:
        registry = CollectorRegistry()
        MultiProcessCollector(registry, str(directory))  # type: ignore[no-untyped-call]
        return generate_latest(registry)

    request()
    return figures(request, scrape, directory, seconds) if seconds else {}


def run(given: Options) -> None:
    table = DecisionTable("0018-our-own-counters.md", COLUMNS)

    def in_a_directory(measured: Callable[[Path, float], dict[str, float]]) -> dict[str, float]:
        with scratch() as directory:
            return measured(directory, given.seconds)

    contenders = {"ours": of_ours, "prometheus-client, multiprocess": of_the_library}
    table.alternate(
        {name: partial(in_a_directory, measured) for name, measured in contenders.items()}, rounds=given.rounds
    )
    table.finish(write=given.write)


if __name__ == "__main__":
    if sys.argv[1:2] == ["library"]:
        print(json.dumps(library(Path(sys.argv[2]), float(sys.argv[3]))))
    else:
        run(options(__doc__, seconds=1.0))
