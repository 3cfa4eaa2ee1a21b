"""A load generator: threads that read batches of keys as fast as they are answered, and how long each took."""

from __future__ import annotations

import threading
import time
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from clickline.cube.cube_client import FOUND, OK, Cube

PERCENTILES = (50, 80, 90, 99, 99.9)


class BenchFigures(TypedDict):
    """The result of a measurement. `microseconds` has `avg` and the percentiles of the time of a request."""

    threads: int
    batch: int
    requests: int
    failed: int
    missing_keys: int
    seconds: float
    qps: float
    keys_per_second: float
    microseconds: dict[str, float]


def bench(
    cube: Cube, table: str, keys: NDArray[np.uint64], *, batch: int, threads: int, requests: int, seed: int = 0
) -> BenchFigures:
    """`requests` of each thread, each with `batch` keys drawn from `keys`. Times are in microseconds."""
    taken = [np.zeros(requests) for _ in range(threads)]
    failed, missing = [0] * threads, [0] * threads
    ready = threading.Barrier(threads + 1)

    def run(number: int) -> None:
        random = np.random.default_rng(seed + number)
        # Drawn in advance, so that drawing is not measured; 64 batches bound the memory.
        batches = [keys[random.integers(0, len(keys), batch)] for _ in range(min(requests, 64))]
        # The first request opens connections, which is not part of the measurement.
        cube.get(table, batches[0])
        ready.wait()
        for index in range(requests):
            began = time.perf_counter()
            found = cube.get(table, batches[index % len(batches)])
            taken[number][index] = time.perf_counter() - began
            failed[number] += found.code != OK
            missing[number] += int(np.count_nonzero(found.status != FOUND))

    workers = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    ready.wait()
    began = time.perf_counter()
    for worker in workers:
        worker.join()
    seconds = time.perf_counter() - began
    times = np.concatenate(taken) * 1e6
    count = threads * requests
    return {
        "threads": threads,
        "batch": batch,
        "requests": count,
        "failed": sum(failed),
        "missing_keys": sum(missing),
        "seconds": round(seconds, 4),
        "qps": round(count / seconds, 1),
        "keys_per_second": round(count * batch / seconds, 1),
        "microseconds": {
            "avg": round(float(times.mean()), 1),
            **{
                f"{p:g}": round(float(value), 1)
                for p, value in zip(PERCENTILES, np.percentile(times, PERCENTILES), strict=True)
            },
        },
    }
