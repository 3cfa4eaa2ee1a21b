"""Every knob of `cluster.agree` and `cluster.wire` changes what is sent, or how stale it is when it arrives."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.eventually import eventually
from support.processes import small_settings
from support.training.served_strategy import ServedStrategy

Serve = Callable[..., ServedStrategy]


@pytest.fixture
def serve(criteo: dict[str, str], tmp_path: Path) -> Iterator[Serve]:
    made: list[ServedStrategy] = []

    def make(strategy: str, *, wire: str = "fp32", servers: int = 1, **agree: int) -> ServedStrategy:
        place = tmp_path / str(len(made))
        place.mkdir()
        cluster = {"pservers": servers, "wire": wire, "agree": agree}
        settings: dict[str, Any] = {**small_settings(criteo, tmp_path), "strategy": strategy, "cluster": cluster}
        settings["model"] = {"name": "deepfm", "embedding_dim": 4, "hidden": [64], "dropout": 0.0}
        made.append(ServedStrategy(settings, place, servers=servers))
        return made[-1]

    yield make
    for each in made:
        each.close()


def in_turn(served: ServedStrategy, *, batches: int, ahead: int = 0) -> None:
    """Learn, and let each batch arrive before the next: only rows that were pulled ahead are stale."""
    for number, _ in enumerate(served.strategy.steps(served.batches(batches), lease=1)):
        pulls = min(number + 1 + ahead, batches) * served.tables
        eventually(lambda pulls=pulls: served.counter("pulls") >= pulls, what=f"{pulls} pulls")
        served.strategy.flush()
    served.strategy.end_piece()


@pytest.mark.parametrize("strategy", ["async", "half_async"])
def test_prefetch_pulls_rows_that_the_batches_before_will_change(serve: Serve, strategy: str) -> None:
    staleness = {}
    for prefetch in (0, 2):
        served = serve(strategy, prefetch=prefetch)
        in_turn(served, batches=6, ahead=prefetch)
        staleness[prefetch] = served.counter("staleness_max")
    assert staleness == {0: 0, 2: 2}


@pytest.mark.parametrize("send_queue", [1, 3])
def test_a_trainer_gets_ahead_of_its_gradients_by_the_send_queue(serve: Serve, send_queue: int) -> None:
    served = serve("async", send_queue=send_queue)
    block, taken = served.servers[0].block, []
    assert block is not None

    def learn() -> None:
        taken.extend(served.strategy.queue for _ in served.strategy.steps(served.batches(8), lease=1))

    trainer = threading.Thread(target=learn, daemon=True)
    with block.lock:  # the server does not take dense gradients, so no batch arrives
        trainer.start()
        eventually(lambda: served.strategy.step > send_queue, what="one batch more than the queue holds")
        assert taken == list(range(1, send_queue + 1))
    trainer.join()
    assert len(taken) == 8
    assert max(taken) == send_queue


@pytest.mark.parametrize(("merge", "messages"), [(1, 6), (3, 2), (4, 2)])
def test_merge_sends_the_gradients_of_several_batches_as_one(serve: Serve, merge: int, messages: int) -> None:
    served = serve("half_async", merge=merge)
    for _ in served.strategy.steps(served.batches(6), lease=1):
        pass
    served.strategy.end_piece()
    assert served.counter("pushes") == messages * served.tables


@pytest.mark.parametrize("strategy", ["async", "half_async"])
def test_dense_every_leaves_dense_parameters_where_they_are(serve: Serve, strategy: str) -> None:
    received = {}
    for every in (1, 3):
        served = serve(strategy, dense_every=every)
        before = served.pservers.pushing.counters()["bytes_received"]
        in_turn(served, batches=6)
        received[every] = served.pservers.pushing.counters()["bytes_received"] - before
    values = served.strategy.replica.flat.values.nbytes
    # Six answers with values against two; the rest of an answer is the same.
    assert received[1] - received[3] == pytest.approx(4 * values, rel=0.02)


def test_max_staleness_drops_what_others_have_overtaken(serve: Serve) -> None:
    dropped = {}
    for bound in (0, 1, 2):
        served = serve("async", prefetch=2, max_staleness=bound)
        in_turn(served, batches=6, ahead=2)
        dropped[bound] = served.counter("discarded")
    assert dropped[0] == dropped[2] == 0
    assert dropped[1] > 0


@pytest.mark.parametrize("geo_steps", [2, 5])
def test_geo_steps_is_how_often_copies_are_exchanged(serve: Serve, geo_steps: int) -> None:
    served = serve("geo", geo_steps=geo_steps)
    block = served.servers[0].block
    assert block is not None
    for _ in served.strategy.steps(served.batches(10), lease=1):
        pass
    assert block.steps == 10 // geo_steps


@pytest.mark.parametrize("wire", ["fp16", "bf16"])
@pytest.mark.parametrize("strategy", ["async", "half_async", "sync", "geo"])
def test_sixteen_bits_halve_rows_and_dense_parameters_both_ways(serve: Serve, strategy: str, wire: str) -> None:
    moved: dict[str, tuple[int, int]] = {}
    for name in ("fp32", wire):
        served = serve(strategy, wire=name, servers=2, **({"geo_steps": 1} if strategy == "geo" else {}))
        for _ in served.strategy.steps(served.batches(4), lease=1):
            pass
        served.strategy.end_piece()
        counters = served.pservers.counters()
        moved[name] = counters["bytes_sent"], counters["bytes_received"]
    sent, received = (moved[wire][way] / moved["fp32"][way] for way in (0, 1))
    assert received < 0.6
    # Keys, slots and counts of shows and clicks are sent as they are.
    assert sent < 0.85


def test_what_is_evaluated_has_all_its_bits(serve: Serve) -> None:
    """Figures are those of the model that is kept."""
    served = serve("async", wire="bf16")
    in_turn(served, batches=3)
    block = served.servers[0].block
    assert block is not None
    served.strategy.replica.take(served.pservers.dense(want="average"))
    assert np.array_equal(served.strategy.replica.flat.values.numpy(), block.average)
    batch, _ = next(served.batches(1))
    replica = served.strategy.replica
    (pulled,) = {
        name: one
        for name, one in replica.sparse.pull(replica.sparse.plan(batch), rows=len(batch), training=False).items()
        if name == "embedding"
    }.values()
    table = served.servers[0].tables["embedding"]
    assert (pulled.rows == table.rows(pulled.plan.unique)).all()
