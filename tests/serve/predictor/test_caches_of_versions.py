"""Caches of rows and of requests belong to a version: they save reads, and hold nothing but what is the version's."""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from clickline import _native
from clickline.net.request_errors import RequestError
from clickline.serve.metrics.counters import series
from clickline.serve.prediction import PredictionResult
from clickline.serve.predictor.cube_layouts import CubeLayouts
from clickline.serve.predictor.model_version import CacheSizes
from clickline.serve.predictor.predictor import Predictor
from clickline.serve.predictor.request_cache import RequestCache
from clickline.serve.predictor.served_model import ServedModel
from support.cubes.cube_servers import NAME, TOKEN, CubeServers
from support.eventually import eventually
from support.serving.raw_rows import Recorded, ask, assert_close, question
from support.versions.known_versions import Known

BOTH = CacheSizes(rows=8 << 20, requests=1 << 20)
HITS = ("clickline_row_cache_total", series("ctr", "hit"))


@pytest.fixture
def cube(known: Known) -> Iterator[CubeServers]:
    with CubeServers(known.store) as servers:
        servers.load(1, 2, 3)
        servers.switch(3)
        yield servers


def served_from(cube: CubeServers, known: Known, **options: Any) -> ServedModel:
    found = ServedModel(
        "ctr", known.store, cube=CubeLayouts.single(cube.client()), **{"interval": 3600, "caches": BOTH, **options}
    )
    assert found.refresh(), found.status()
    return found


def ask_cached(predictor: Predictor, rows: list[dict[str, Any]]) -> PredictionResult:
    """The way of a request over HTTP."""
    body = json.dumps({"instances": rows}).encode()
    chosen = predictor.choose()
    if (known := predictor.cached(chosen, ("plain", body))) is not None:
        return known[0]
    found: list[Any] = []
    there = threading.Event()
    predictor.submit(
        chosen,
        question(chosen.model_version, rows),
        done=lambda answer: (found.append(answer), there.set()),  # type: ignore[func-returns-value]
        timeout=30,
        cache_key=("plain", body),
    )
    assert there.wait(60)
    if isinstance(found[0], RequestError):
        raise found[0]
    return found[0]


def test_rows_that_were_read_are_not_read_again(known: Known, cube: CubeServers) -> None:
    counts = Recorded()
    served = served_from(cube, known, counts=counts, caches=CacheSizes(rows=8 << 20))
    with Predictor({"ctr": served}, counts=counts) as predictor:
        assert_close(ask(predictor, known.rows[:20]).probability, known.expected[3][:20])
        missing = counts.counted["clickline_missing_keys_total", ""]
        for server in cube.servers:
            server.close()
        before = counts.counted.get(HITS, 0)
        assert_close(ask(predictor, known.rows[:20]).probability, known.expected[3][:20])
        assert counts.counted[HITS] - before > 20 * 26
        assert counts.counted["clickline_missing_keys_total", ""] == 2 * missing > 0
        with pytest.raises(RequestError, match="cannot be read"):
            ask(predictor, known.rows[20:])


def test_without_caches_every_row_is_read_again(known: Known, cube: CubeServers) -> None:
    with Predictor({"ctr": served_from(cube, known, caches=CacheSizes())}) as predictor:
        ask(predictor, known.rows[:20])
        for server in cube.servers:
            server.close()
        with pytest.raises(RequestError, match="cannot be read"):
            ask(predictor, known.rows[:20])


def test_zeros_for_rows_that_could_not_be_read_are_not_kept(known: Known, cube: CubeServers) -> None:
    served = served_from(cube, known, failure="zeros", caches=CacheSizes(rows=8 << 20))
    with Predictor({"ctr": served}) as predictor:
        cube.servers[1].close()
        assert np.abs(ask(predictor, known.rows).probability - known.expected[3]).max() > 1e-4
        again = _native.CubeServer(cube.addresses[1][0], name="cube 1", job=NAME, token=TOKEN)
        other, cube.servers[:] = cube.servers[0], [again]
        cube.load(3)
        cube.switch(3)
        cube.servers.insert(0, other)
        eventually(lambda: bool(np.abs(ask(predictor, known.rows).probability - known.expected[3]).max() < 1e-5))


@pytest.mark.parametrize("caches", [CacheSizes(rows=200_000), BOTH], ids=["a small one", "both"])
def test_no_answer_mixes_versions_with_caches_on(known: Known, cube: CubeServers, caches: CacheSizes) -> None:
    """Versions are switched and dropped at random; every answer is computed again from its version's files."""
    stop, wrong, failed, seen = threading.Event(), [], [], Counter[int]()
    counts = Recorded()

    def client(seed: int) -> None:
        draw = random.Random(seed)
        while not stop.is_set():
            first, many = draw.randrange(30), draw.randrange(1, 10)
            try:
                answer = ask_cached(predictor, known.rows[first : first + many])
            except RequestError as error:
                failed.append(str(error))
                continue
            wanted = known.expected[answer.version][first : first + len(answer.probability)]
            if np.abs(answer.probability - wanted).max() > 1e-5:
                wrong.append((answer.version, first))
            seen[answer.version] += 1

    served = served_from(cube, known, interval=0.01, caches=caches, counts=counts)
    with Predictor({"ctr": served}, counts=counts) as predictor:
        clients = [threading.Thread(target=client, args=(seed,)) for seed in range(3)]
        for one in clients:
            one.start()
        try:
            draw, now = random.Random(7), 3
            for turn in range(12):
                before, now = now, draw.choice([version for version in (1, 2, 3) if version != now])
                if now not in cube.servers[0].versions():
                    cube.load(now)
                cube.switch(now, drop=(before,) if turn % 3 == 2 else ())
                eventually(lambda now=now: predictor.models["ctr"].model_version().version == now)
                count = seen.total()
                eventually(lambda count=count: seen.total() > count + 5)
        finally:
            stop.set()
            for one in clients:
                one.join()
    assert not wrong
    assert not failed
    assert set(seen) == {1, 2, 3}
    assert counts.counted[HITS] > 0
    if caches.requests:
        assert counts.counted["clickline_request_cache_total", series("ctr", "hit")] > 0


class SameHash(bytes):
    def __hash__(self) -> int:
        return 1


def test_requests_that_collide_are_told_apart() -> None:
    cache = RequestCache(100_000)
    for text in (b"a", b"b", b"c"):
        cache.put(("plain", SameHash(text)), np.full((1, 1), text[0], np.float32), text[0])
    for text in (b"a", b"b", b"c"):
        found = cache.get(("plain", SameHash(text)))
        assert found is not None
        assert (found.probability.item(), found.missing) == (text[0], text[0])
    assert cache.get(("plain", SameHash(b"d"))) is None
    assert cache.get(("elastic", SameHash(b"a"))) is None


def test_kept_requests_are_bounded_and_the_oldest_goes_first() -> None:
    cache = RequestCache(10_000)
    numbers = np.zeros((4, 1), np.float32)
    cache.put(("plain", b"x" * 5000), numbers, 0)  # larger than an eighth
    assert len(cache) == 0
    for number in range(100):
        cache.put(("plain", b"%03d" % number), numbers, number)
        assert cache.get(("plain", b"000")) is not None  # asked for again and again
        assert cache.used <= 10_000
    assert cache.get(("plain", b"001")) is None
    assert cache.get(("plain", b"099")) is not None
    assert 10 < len(cache) < 100


def test_what_is_kept_is_a_copy() -> None:
    cache, numbers = RequestCache(10_000), np.zeros((4, 1), np.float32)
    cache.put(("plain", b"x"), numbers[1:2], 0)
    numbers[:] = 1
    found = cache.get(("plain", b"x"))
    assert found is not None and found.probability.item() == 0
