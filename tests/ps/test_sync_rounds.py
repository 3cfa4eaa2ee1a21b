"""A synchronous step on a server: whatever the order in which trainers arrive, the same bits come of it."""

from __future__ import annotations

import threading
from itertools import permutations

import numpy as np
import pytest

from clickline import _native
from clickline.config.training import DenseOptimizer
from clickline.ps.protocol.pserver_messages import SyncRequest
from clickline.ps.server import sync_rounds
from clickline.ps.server.dense_block import DenseBlock
from clickline.ps.server.sync_rounds import SyncRounds
from clickline.ps.sync_share import share
from clickline.train.row_gradients import Gradient

TRAINERS = 3  # two would not do: a + b is b + a to the last bit


def gradient_of(rank: int) -> tuple[Gradient, np.ndarray]:
    draw = np.random.default_rng(rank)
    keys = np.arange(1, 200, dtype=np.uint64)
    keys = keys[np.argsort(keys * np.uint64(0x9E3779B97F4A7C15))]
    ones, values = np.ones(len(keys), np.float32), draw.normal(size=(len(keys), 4)).astype(np.float32)
    return Gradient(keys, np.zeros(len(keys), np.uint16), ones, ones, values), draw.normal(size=500).astype(np.float32)


def learned(order: tuple[int, ...]) -> tuple[bytes, bytes]:
    """What table and block are after one step to which trainers come in this order."""
    table = _native.Table(dim=4, optimizer="sgd", learning_rate=0.1, seed=7)
    block = DenseBlock(np.zeros(500, np.float32), optimizer=DenseOptimizer(name="sgd", learning_rate=0.1), keep=0.0)
    step = SyncRounds([table], block, generation=1)
    step.begin(range(TRAINERS))
    threads = []
    for count, rank in enumerate(order, 1):
        sparse, dense = gradient_of(rank)
        request = SyncRequest(generation=1, rank=rank, step=0, weight=1.0 + rank, tick=0)
        threads.append(threading.Thread(target=step.contribute, args=(request, share([sparse], dense))))
        threads[-1].start()
        while count < TRAINERS and len(step._shares) < count:
            threads[-1].join(0.001)
    for thread in threads:
        thread.join()
    return table.rows(table.keys()).tobytes(), block.values.tobytes()


def test_the_order_of_arrival_changes_no_bit() -> None:
    assert len({learned(order) for order in permutations(range(TRAINERS))}) == 1


def test_merged_as_they_come_the_bits_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the test above can fail: without the order of ranks there is more than one outcome."""
    monkeypatch.setattr(sync_rounds, "sorted", list, raising=False)
    assert len({learned(order) for order in permutations(range(TRAINERS))}) > 1


def test_a_step_that_was_applied_is_known_until_it_is_rolled_back() -> None:
    """So that a trainer whose answer was lost gets it without contributing twice."""
    block = DenseBlock(np.zeros(500, np.float32), optimizer=DenseOptimizer(name="sgd", learning_rate=0.1), keep=0.0)
    table = _native.Table(dim=4, optimizer="sgd", learning_rate=0.1, seed=7)
    step = SyncRounds([table], block, generation=1)
    step.begin([0])
    assert not step.has_applied(0, generation=1)
    sparse, dense = gradient_of(0)
    request = SyncRequest(generation=1, rank=0, step=0, weight=1.0, tick=0)
    assert step.contribute(request, share([sparse], dense))
    assert step.has_applied(0, generation=1)
    assert not step.has_applied(1, generation=1)
    assert not step.has_applied(0, generation=2)
    assert table.step == 1
    step.abandon()
    assert not step.has_applied(0, generation=1)


def test_a_dense_step_is_by_the_mean_over_rows_not_over_trainers() -> None:
    """A trainer with a batch of 3 rows counts three times as much as one with a single row."""
    block = DenseBlock(np.zeros(4, np.float32), optimizer=DenseOptimizer(name="sgd", learning_rate=1.0), keep=0.0)
    step = SyncRounds([], block, generation=1)
    step.begin([0, 1])
    shares = {0: (1.0, np.full(4, 8.0, np.float32)), 1: (3.0, np.full(4, 4.0, np.float32))}

    def contribute(rank: int) -> None:
        weight, dense = shares[rank]
        request = SyncRequest(generation=1, rank=rank, step=0, weight=weight, tick=0)
        assert step.contribute(request, share([], dense))

    threads = [threading.Thread(target=contribute, args=(rank,)) for rank in shares]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert block.values.tolist() == [-5.0] * 4  # (1 · 8 + 3 · 4) / 4
