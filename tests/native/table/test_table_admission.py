"""Who gets a row: keys seen often enough, or by luck, by the policy of their slot."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clickline._native import Table


def policy(count: int = 1, probability: float = 1.0) -> tuple[int, float, int, float, float, float]:
    return (count, probability, 0, 0.0, 0.1, 1.0)


def table(*policies: tuple[int, float, int, float, float, float], seed: int = 0) -> Table:
    return Table(dim=2, optimizer="sgd", learning_rate=1.0, init_scale=0.5, seed=seed, policies=list(policies))


def test_a_key_gets_its_row_in_the_push_that_completes_its_sightings(push: Any, pull: Any) -> None:
    selective, open_ = table(policy(count=3)), table()
    start = pull(open_, [9])
    for seen in (1, 2):
        push(selective, [9])
        assert len(selective) == 0
        assert selective.memory()["waiting"] == 1, seen
        assert not pull(selective, [9], slot=0).any()
    push(selective, [9], 0.25)
    key = np.array([9], np.uint64)
    assert (selective.rows(key) == start - 0.25).all()
    assert selective.counts(key).tolist() == [[3, 0]]
    assert selective.memory()["waiting"] == 0


def test_several_shows_of_one_push_are_several_sightings(push: Any) -> None:
    selective = table(policy(count=5))
    push(selective, [1, 2], shows=4)
    assert len(selective) == 0
    push(selective, [2], shows=2)
    push(selective, [3], shows=70_000)
    assert selective.counts(np.array([1, 2, 3], np.uint64)).tolist() == [[0, 0], [6, 0], [70_000, 0]]


def test_each_slot_has_its_own_policy(push: Any, pull: Any) -> None:
    mixed = table(policy(), policy(count=2), policy(count=3))
    for slot in range(3):
        push(mixed, [10 + slot], slot=slot)
    assert mixed.keys().tolist() == [10]
    assert pull(mixed, [20], slot=0).any()
    assert not pull(mixed, [20], slot=1).any()
    assert pull(mixed, [20]).any(), "without slots nothing is known of admission"
    for slot in range(3):
        push(mixed, [10 + slot], slot=slot)
    assert sorted(mixed.keys().tolist()) == [10, 11]


@pytest.mark.parametrize("probability", [0.1, 0.5])
def test_luck_follows_the_probability_and_repeats_exactly(probability: float, push: Any) -> None:
    keys = np.arange(20_000, dtype=np.uint64)
    first, second, other = (table(policy(probability=probability), seed=seed) for seed in (1, 1, 2))
    push(first, keys, tick=5)
    push(second, keys[::-1], tick=5, threads=2)
    push(other, keys, tick=5)
    assert abs(len(first) / len(keys) - probability) < 0.02
    assert (first.keys() == second.keys()).all()
    assert set(first.keys().tolist()) != set(other.keys().tolist())
    missing = np.setdiff1d(keys, first.keys())
    push(first, missing, tick=6)
    assert abs(1 - (20_000 - len(first)) / len(missing) - probability) < 0.02
    assert first.memory()["waiting"] == 0


def test_count_and_luck_must_both_hold(push: Any) -> None:
    keys = np.arange(5000, dtype=np.uint64)
    both, luck = table(policy(count=2, probability=0.5)), table(policy(probability=0.5))
    push(both, keys, tick=1)
    assert len(both) == 0
    push(both, keys, tick=2)
    push(luck, keys, tick=2)
    assert (both.keys() == luck.keys()).all()
    assert both.memory()["waiting"] == 5000 - len(both)


def test_policies_are_checked() -> None:
    with pytest.raises(ValueError, match="admission count must be 1 to 65535 but got 0"):
        table(policy(count=0))
    with pytest.raises(ValueError, match="admission probability must be above 0 and at most 1"):
        table(policy(probability=1.5))
