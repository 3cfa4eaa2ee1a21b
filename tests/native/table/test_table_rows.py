"""Rows: how they start, that they are found again, what a bad call leaves behind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from clickline._native import Table, bucket_of
from clickline.errors import ClicklineError

MANY = np.random.default_rng(0).integers(0, 2**64, 20_000, dtype=np.uint64)


def test_start_depends_on_key_and_seed_only(push: Any, pull: Any) -> None:
    table, busy = Table(dim=10, seed=7), Table(dim=10, seed=7, optimizer="ftrl")
    push(busy, np.arange(5000, dtype=np.uint64))
    start = pull(table, MANY)
    assert (pull(busy, MANY[::-1], threads=3)[::-1] == start).all()
    assert (pull(Table(dim=4, seed=7), MANY) == start[:, :4]).all()
    assert (pull(Table(dim=10, seed=8), MANY) != start).mean() > 0.99


def test_start_is_normal_with_the_asked_spread(pull: Any) -> None:
    start = pull(Table(dim=10, seed=3, init_scale=0.2), MANY)
    assert abs(start.mean()) < 0.002
    assert abs(start.std() - 0.2) < 0.002
    assert abs((np.abs(start) < 0.2).mean() - 0.683) < 0.02
    assert np.abs(np.corrcoef(start.T) - np.eye(10)).max() < 0.03
    near = pull(Table(dim=10, seed=3, init_scale=0.2), np.arange(20_000))
    assert abs(np.corrcoef(near[:-1, 0], near[1:, 0])[0, 1]) < 0.03


def test_a_new_row_begins_where_the_pull_said(push: Any, pull: Any) -> None:
    table = Table(dim=6, optimizer="sgd", learning_rate=1.0)
    start = pull(table, MANY)
    push(table, MANY, 0.25)
    assert (table.rows(MANY) == start - 0.25).all()


def test_no_spread_means_zeros(pull: Any) -> None:
    assert (pull(Table(dim=3, init_scale=0.0), MANY) == 0).all()


def test_pull_creates_nothing_and_gives_zeros_outside_training(push: Any, pull: Any) -> None:
    table = Table(dim=3)
    assert pull(table, MANY).any()
    assert not pull(table, MANY, training=False).any()
    assert len(table) == 0
    push(table, MANY[:5])
    assert (pull(table, MANY[:5], training=False) == table.rows(MANY[:5])).all()


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("dim", [1, 10, 700])
def test_grows_to_any_key(dim: int, optimizer: str, push: Any, pull: Any) -> None:
    table = Table(dim=dim, optimizer=optimizer, learning_rate=1.0)
    edges = [*range(500), *range(2**64 - 500, 2**64), *(2**power for power in range(10, 64))]
    keys = np.array(edges, np.uint64)
    expected = pull(table, keys)
    for part in np.array_split(np.random.default_rng(1).permutation(len(keys)), 7):
        push(table, keys[part], 0.5)
    assert len(table) == len(keys)
    assert (table.keys() == sorted(keys.tolist(), key=lambda key: (bucket_of(key), key))).all()
    if optimizer == "sgd":
        assert (table.rows(keys) == expected - 0.5).all()
    assert (table.counts(keys) == [1, 0]).all()


@pytest.mark.parametrize("threads", [2, 5])
def test_threads_do_not_change_the_result(threads: int, push: Any) -> None:
    one, several = Table(dim=10, optimizer="adam"), Table(dim=10, optimizer="adam")
    grads = np.random.default_rng(4).normal(0, 1, (len(MANY), 10)).astype(np.float32)
    for part in (slice(0, 12_000), slice(8000, 20_000)):
        push(one, MANY[part], grads[part])
        push(several, MANY[part], grads[part], threads=threads)
    assert (one.rows(MANY) == several.rows(MANY)).all()
    assert (one.states(MANY) == several.states(MANY)).all()


def test_a_repeated_key_is_applied_each_time(push: Any, pull: Any) -> None:
    table = Table(dim=2, optimizer="sgd", learning_rate=1.0, init_scale=0.0)
    push(table, [5] * 3000 + [6], 1.0, threads=2)
    assert len(table) == 2
    assert table.rows(np.array([5, 6], np.uint64)).tolist() == [[-3000] * 2, [-1] * 2]


def test_counts_and_last_seen(push: Any) -> None:
    table = Table(dim=2)
    push(table, [1, 2], shows=3, clicks=1, tick=10)
    push(table, [2, 3], shows=2, clicks=2, tick=4)
    keys = np.array([1, 2, 3, 4], np.uint64)
    assert table.counts(keys).tolist() == [[3, 1], [5, 3], [2, 2], [0, 0]]
    assert table.last_seen(keys).tolist() == [10, 10, 4, -1]
    assert not table.rows(keys)[3].any()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_gradient_that_is_not_finite_applies_nothing(bad: float, push: Any) -> None:
    table = Table(dim=3, optimizer="adam")
    push(table, MANY[:10])
    before = table.rows(MANY)
    grads = np.ones((len(MANY), 3), np.float32)
    grads[12_345, 1] = grads[15_000, 0] = bad
    with pytest.raises(ClicklineError, match=rf"gradient of key {MANY[12_345]} .* nothing of this push was applied"):
        push(table, MANY, grads, threads=2)
    assert (table.rows(MANY) == before).all()
    assert (len(table), table.step) == (10, 1)


def test_counts_that_are_not_finite_apply_nothing(push: Any) -> None:
    table = Table(dim=3)
    with pytest.raises(ClicklineError, match="count of shows or clicks of key 2"):
        push(table, [2], clicks=np.nan)
    assert len(table) == 0


def test_bad_calls_say_what_was_expected(push: Any) -> None:
    table = Table(dim=3, policies=[(1, 1.0, 9, 0.0, 0.1, 1.0)])
    keys, out = np.zeros(4, np.uint64), np.zeros((4, 3), np.float32)
    with pytest.raises(ValueError, match="'out' must have 3 columns but has 2"):
        table.pull(keys, np.zeros((4, 2), np.float32), training=True)
    with pytest.raises(ValueError, match="'out' must have one entry for each of the 4 keys but has 3"):
        table.pull(keys, out[:3], training=True)
    with pytest.raises(TypeError, match="float32"):
        table.pull(keys, out.astype(np.float64), training=True)
    with pytest.raises(TypeError):
        table.pull(keys, np.zeros((3, 4), np.float32).T, training=True)
    with pytest.raises(ValueError, match=r"key 1 .* is of slot 7 but the table has 1 slots"):
        push(table, [1], slot=7)
    with pytest.raises(ValueError, match="'tick' must be 0 to 4294967295 but got -1"):
        push(table, [1], tick=-1)
    with pytest.raises(ValueError, match="scale must be above 0"):
        push(table, [1], scale=0.0)
    with pytest.raises(ValueError, match="dim must be 1 to 4096 but got 0"):
        Table(dim=0)
    assert len(table) == 0


def test_takes_torch_tensors_without_a_copy() -> None:
    out = torch.zeros(2, 3)
    Table(dim=3).pull(np.array([1, 2], np.uint64), out.numpy(), training=True)
    assert out.abs().min() > 0


def test_memory_is_close_to_the_payload(push: Any) -> None:
    table = Table(dim=16, optimizer="adagrad")
    for part in np.array_split(np.random.default_rng(5).integers(0, 2**64, 300_000, dtype=np.uint64), 10):
        push(table, part)
    memory = table.memory()
    assert memory["rows"] == len(table) == 300_000
    assert memory["payload_bytes_per_row"] == 8 + 8 + 4 + 2 + 64 + 64
    assert memory["bytes_per_row"] == memory["total_bytes"] / 300_000
    assert memory["bytes_per_row"] < 1.25 * memory["payload_bytes_per_row"]
