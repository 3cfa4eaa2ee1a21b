"""Picking, cutting and joining rows, checked against the same thing done row by row."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clickline.data.batch import Batch, join


def made(rows: int, slots: int, *, longest: int, seed: int = 0) -> Batch:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, longest + 1, rows * slots)
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    return Batch(
        labels=rng.random((rows, 2), np.float32),
        dense=rng.random((rows, 3), np.float32),
        keys=rng.integers(0, 2**63, int(offsets[-1])).astype(np.uint64),
        offsets=None if offsets[-1] == rows * slots else offsets,
        weights=rng.random(rows, np.float32),
        times=rng.integers(0, 99, rows),
        groups=None,
    )


def listed(batch: Batch) -> list[tuple[object, ...]]:
    """Row by row, as plain values."""
    rows = len(batch)
    offsets = np.arange(len(batch.keys) + 1) if batch.offsets is None else batch.offsets
    slots = (len(offsets) - 1) // max(rows, 1)
    keys = [batch.keys[offsets[i] : offsets[i + 1]].tolist() for i in range(rows * slots)]
    assert batch.weights is not None and batch.times is not None and batch.groups is None
    assert (batch.offsets is None) == (len(batch.keys) == rows * slots)
    return [
        (
            batch.labels[r].tolist(),
            batch.dense[r].tolist(),
            keys[r * slots : (r + 1) * slots],
            float(batch.weights[r]),
            int(batch.times[r]),
        )
        for r in range(rows)
    ]


shapes = st.tuples(st.integers(1, 12), st.integers(0, 4), st.integers(1, 3), st.integers(0, 99))


@settings(max_examples=60, deadline=None)
@given(shapes, st.data())
def test_take(shape: tuple[int, int, int, int], data: st.DataObject) -> None:
    batch = made(shape[0], shape[1], longest=shape[2], seed=shape[3])
    rows = data.draw(st.lists(st.integers(0, shape[0] - 1), max_size=20))
    assert listed(batch.take(np.array(rows, np.int64))) == [listed(batch)[row] for row in rows]


@settings(max_examples=60, deadline=None)
@given(shapes, st.data())
def test_parts_joined_are_the_whole(shape: tuple[int, int, int, int], data: st.DataObject) -> None:
    batch = made(shape[0], shape[1], longest=shape[2], seed=shape[3])
    cuts = sorted(data.draw(st.sets(st.integers(1, shape[0]))) | {0, shape[0]})
    parts = [batch.part(first, last) for first, last in pairwise(cuts)]
    assert [row for part in parts for row in listed(part)] == listed(batch)
    joined = join(parts)
    assert listed(joined) == listed(batch)
    assert parts == []


@pytest.mark.parametrize("longest", [1, 3])
def test_taken_rows_are_copies(longest: int) -> None:
    batch = made(4, 2, longest=longest)
    taken = batch.take(np.arange(4))
    for name in ("labels", "dense", "keys", "weights", "times"):
        assert not np.shares_memory(getattr(batch, name), getattr(taken, name))
