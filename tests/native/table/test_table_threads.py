"""Several Python threads on one table: nothing is lost, nothing is torn."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from clickline._native import Table


def test_pulls_and_pushes_at_once_lose_nothing(push: Any, pull: Any) -> None:
    table = Table(dim=8, optimizer="sgd", learning_rate=1.0, init_scale=0.0)

    def work(number: int) -> None:
        random = np.random.default_rng(number)
        for tick in range(20):
            keys = np.unique(random.integers(0, 3000, 2000, dtype=np.uint64))
            rows = pull(table, keys, threads=1 + number % 2)
            assert (rows == rows[:, :1]).all(), "a row is never seen half written"
            push(table, keys, 1.0, tick=tick, threads=1 + number % 2)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    keys = table.keys()
    assert (table.rows(keys)[:, 0] == -table.counts(keys)[:, 0]).all()
    assert table.step == 80


def test_a_save_sees_whole_pushes_only(push: Any, tmp_path: Path) -> None:
    table = Table(dim=4, optimizer="sgd")
    keys = np.arange(5000, dtype=np.uint64)

    def train() -> None:
        for tick in range(60):
            push(table, keys, tick=tick)

    with ThreadPoolExecutor(1) as pool:
        training = pool.submit(train)
        for number in range(8):
            table.save(tmp_path / str(number))
        training.result()
    for number in range(8):
        copy = Table(dim=4, optimizer="sgd")
        copy.load(tmp_path / str(number))
        assert set(copy.counts(keys)[:, 0].tolist()) == {copy.step}
