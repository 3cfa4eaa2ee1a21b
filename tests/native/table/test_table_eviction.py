"""Who loses its row: keys unseen for long or worth little, by the policy of their slot."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clickline._native import Table

NEVER = (1, 1.0, 0, 0.0, 0.1, 1.0)


def table(*policies: tuple[int, float, int, float, float, float]) -> Table:
    return Table(dim=4, policies=list(policies))


def test_rows_unseen_for_long_are_dropped(push: Any) -> None:
    evicting = table((1, 1.0, 10, 0.0, 0.1, 1.0), NEVER)
    push(evicting, [1, 2], tick=100)
    push(evicting, [3], tick=100, slot=1)
    push(evicting, [2], tick=105)
    assert evicting.evict(110) == 0
    assert evicting.evict(111) == 1
    assert sorted(evicting.keys().tolist()) == [2, 3]
    assert evicting.evict(50) == 0, "a clock that goes back drops nothing"


def test_rows_worth_little_are_dropped_after_decay(push: Any) -> None:
    evicting = table((1, 1.0, 0, 2.0, 0.5, 1.0), NEVER)
    push(evicting, [1], shows=2, clicks=3)  # 4.0
    push(evicting, [2], shows=4, clicks=1)  # 3.0
    push(evicting, [3], slot=1)
    assert evicting.evict(1) == 0
    assert evicting.evict(1, 0.6) == 1
    keys = np.array([1, 2, 3], np.uint64)
    np.testing.assert_allclose(evicting.counts(keys), [[1.2, 1.8], [0.0, 0.0], [0.6, 0.0]], rtol=1e-6)


def test_counts_decay_without_policies(push: Any) -> None:
    plain = table()
    push(plain, [1], shows=8, clicks=4)
    assert plain.evict(1, 0.5) == 0
    assert plain.counts(np.array([1], np.uint64)).tolist() == [[4, 2]]


def test_what_stays_is_found_and_what_went_starts_anew(push: Any, pull: Any) -> None:
    evicting = table((1, 1.0, 5, 0.0, 0.1, 1.0))
    keys = np.arange(30_000, dtype=np.uint64)
    start = pull(evicting, keys)
    push(evicting, keys, tick=1)
    rng = np.random.default_rng(0)
    for tick in (5, 10, 15):
        seen = rng.random(len(keys)) < 0.4
        push(evicting, keys[seen], tick=tick)
        rows, there = evicting.rows(keys), evicting.last_seen(keys)
        dropped = evicting.evict(tick + 3, threads=2)
        gone = (tick + 3 - there > 5) & (there >= 0)
        assert dropped == gone.sum() > 1000
        kept = (there >= 0) & ~gone
        assert (evicting.rows(keys[kept]) == rows[kept]).all()
        assert (pull(evicting, keys[gone]) == start[gone]).all()
        assert len(evicting) == kept.sum()


def test_room_of_dropped_rows_is_used_again(push: Any) -> None:
    evicting = table((1, 1.0, 1, 0.0, 0.1, 1.0))
    for tick in range(1, 40, 3):
        push(evicting, np.arange(20_000, dtype=np.uint64) + np.uint64(tick * 20_000), tick=tick)
        if tick == 1:
            first = evicting.memory()["total_bytes"]
        evicting.evict(tick + 2)
        assert len(evicting) == 0
    assert evicting.memory()["total_bytes"] < first * 1.25


def test_waiting_keys_are_dropped_too(push: Any) -> None:
    evicting = table((3, 1.0, 10, 0.0, 0.1, 1.0))
    push(evicting, [1, 2], tick=1)
    push(evicting, [2], tick=5)
    assert evicting.evict(12) == 0
    assert evicting.memory()["waiting"] == 1
    push(evicting, [1, 2], tick=12)
    assert evicting.keys().tolist() == [2]


def test_decay_is_checked() -> None:
    for bad in (0.0, 1.1, float("nan")):
        with pytest.raises(ValueError, match="decay must be above 0 and at most 1"):
            table().evict(1, bad)
