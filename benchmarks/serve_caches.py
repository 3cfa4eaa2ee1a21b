"""What the predictor's caches save: hit rates and the time of a request with a cube, on and off in turn.

    python benchmarks/serve_caches.py --requests 2000

Rows are those of a synthetic log in Criteo's shape, whose values follow Zipf's law. The cube is 2 shards as processes.
Each request is asked of a predictor without a cache and of one with it, one after the other, in changing order, so both
see the same machine. Whole requests repeat by Zipf's law over `--bodies` different ones.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from clickline.config import Job
from clickline.cube.cube_client import Cube
from clickline.data.synthetic import write_criteo
from clickline.launch.local_cube import LocalCube
from clickline.publish.publisher import Settings, publish
from clickline.serve.metrics.counters import Counters, series
from clickline.serve.predictor.cube_layouts import CubeLayouts
from clickline.serve.predictor.model_version import CacheSizes
from clickline.serve.predictor.predictor import Predictor
from clickline.serve.predictor.served_model import ServedModel
from clickline.train.session import train_job
from clickline.versions.store import Store, open_store
from serve_parts import CATEGORIES, INTEGERS

NAME, ROWS = "ctr", 16
_SHARES = (10, 50, 90)
"""Percentiles: the lowest is what a machine at rest would show."""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--requests", type=int, default=2000)
    options.add_argument("--bodies", type=int, default=1000)
    options.add_argument("--train-rows", type=int, default=100_000)
    options.add_argument("--row-cache", type=int, nargs="*", default=[1 << 20, 4 << 20, 16 << 20])
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        store, rows = _published(directory, given.train_rows, given.requests * ROWS)
        with LocalCube(directory / "cube", store=store.url, name=NAME, shards=2, replicas=1) as cube:
            cube.wait_for(1)
            stream = [_body(rows[n * ROWS : (n + 1) * ROWS]) for n in range(given.requests)]
            for size in given.row_cache:
                _compare(directory, store, cube, CacheSizes(rows=size), stream, f"rows, {size >> 20} MiB", "row")
            ranks = np.random.default_rng(1).zipf(1.2, 20 * given.requests) - 1
            bodies = stream[: given.bodies]
            repeated = [bodies[rank] for rank in ranks if rank < len(bodies)][: given.requests]
            _compare(directory, store, cube, CacheSizes(requests=64 << 20), repeated, "requests, 64 MiB", "request")


def _published(directory: Path, train_rows: int, test_rows: int) -> tuple[Store, list[dict[str, Any]]]:
    write_criteo(directory / "data.tsv", rows=train_rows + test_rows, seed=3, ids=train_rows * 10, test_rows=test_rows)
    job = Job.model_validate(
        {
            "data": {"format": "criteo", "train": [str(directory / "data.train.tsv")]},
            "model": {"name": "deepfm", "embedding_dim": 16},
            "train": {"epochs": 1},
            "output": str(directory / "runs"),
        }
    )
    store = open_store(str(directory / "store"))
    publish(train_job(job).directory, store, Settings())
    return store, list(_rows(directory / "data.test.tsv"))


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            values = line.rstrip("\n").split("\t")[1:]
            yield {name: text for name, text in zip((*INTEGERS, *CATEGORIES), values, strict=True) if text}


def _body(rows: list[dict[str, Any]]) -> bytes:
    return json.dumps({"instances": rows}).encode()


def _compare(
    directory: Path, store: Store, cube: LocalCube, caches: CacheSizes, stream: list[bytes], title: str, what: str
) -> None:
    counts = Counters(directory / f"{title}.counts")
    with _predictor(store, cube, CacheSizes(), None) as without, _predictor(store, cube, caches, counts) as with_cache:
        for body in stream[:20]:
            _ask(without, body)
        seconds: dict[Predictor, list[float]] = {without: [], with_cache: []}
        for number, body in enumerate(stream):
            for predictor in (without, with_cache) if number % 2 else (with_cache, without):
                start = perf_counter()
                _ask(predictor, body)
                seconds[predictor].append(perf_counter() - start)
    half = len(stream) // 2  # what was asked before has filled the cache
    off, on = (np.array(seconds[one][half:]) * 1e6 for one in (without, with_cache))
    hits, misses = (counts.total(f"clickline_{what}_cache_total", series(NAME, one))[0] for one in ("hit", "miss"))
    pairs = [(share, np.percentile(off, share), np.percentile(on, share)) for share in _SHARES]
    figures = [f"p{share} off {before:.0f} us, on {after:.0f} us" for share, before, after in pairs]
    print(f"{title}: hit rate {hits / max(hits + misses, 1):.1%}; {'; '.join(figures)}", flush=True)


def _predictor(store: Store, cube: LocalCube, caches: CacheSizes, counts: Counters | None) -> Predictor:
    served = ServedModel(
        NAME,
        store,
        cube=CubeLayouts.single(Cube.connect(cube.servers, token=cube.token.encode(), name=NAME)),
        interval=3600,
        caches=caches,
        counts=counts,
    )
    if not served.refresh():
        raise SystemExit(f"no version: {served.status()}")
    return Predictor({NAME: served}, counts=counts)


def _ask(predictor: Predictor, body: bytes) -> None:
    """The way of a request, its body read included; the network between client and server is not."""
    chosen = predictor.choose()
    key = ("plain", body) if chosen.model_version.requests is not None else None
    if key is not None and predictor.cached(chosen, key) is not None:
        return
    there = threading.Event()
    question = chosen.model_version.reader.from_json(body, most_rows=4096)
    predictor.submit(chosen, question, done=lambda _: there.set(), timeout=30, cache_key=key)
    there.wait()


if __name__ == "__main__":
    main()
