"""A base and any number of deltas, with deletes, read the same as one full base, whatever happened in between."""

from __future__ import annotations

import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clickline import _native
from clickline.publish.row_files import table_file, write_rows
from clickline.train.learner import Learner
from clickline.versions.chain import Chain
from clickline.versions.manifest import DTYPES, Dtype

KEYS = (np.arange(60, dtype=np.uint64) + 1) * np.uint64(0x9E3779B97F4A7C15)
DIM = 3
# Between two versions: which keys learn, and how old a row must be to go.
histories = st.lists(st.tuples(st.lists(st.integers(0, 59), max_size=20), st.integers(1, 6)), min_size=1, max_size=6)


def learn(table: _native.Table, chosen: list[int], *, tick: int) -> None:
    keys = np.unique(KEYS[chosen])
    ones = np.ones(len(keys), np.float32)
    gradients = np.random.default_rng(tick).normal(size=(len(keys), DIM)).astype(np.float32)
    table.push(keys, gradients, ones, ones, np.zeros(len(keys), np.uint16), tick=tick)


def published(learner: Learner, place: Path, dtype: Dtype, under: list[_native.Dictionary]) -> _native.Dictionary:
    place.mkdir()
    parent = cast(Chain, SimpleNamespace(layers={"embedding": under})) if under else None
    rows = write_rows(learner, place, dtype=dtype, parent=parent, or_base=False, progress=lambda share, what: None)
    assert rows.kind == ("delta" if under else "base")
    found = _native.Dictionary(place / table_file("embedding"))
    assert (found.count, found.deleted) == (rows.tables["embedding"].rows, rows.tables["embedding"].deleted)
    assert [path.name for path in place.iterdir()] == [table_file("embedding")]
    return found


@pytest.mark.heavy
@pytest.mark.parametrize("dtype", DTYPES)
@settings(max_examples=25, deadline=None)
@given(histories)
def test_base_and_deltas_read_as_a_full_base(dtype: Dtype, history: list[tuple[list[int], int]]) -> None:
    table = _native.Table(dim=DIM, policies=[(1, 1.0, 3, 0.0, 1.0, 1.0)])
    learner = cast(Learner, SimpleNamespace(sparse=SimpleNamespace(tables={"embedding": table}, threads=1)))
    layers: list[_native.Dictionary] = []
    tick = 0
    with tempfile.TemporaryDirectory() as scratch:
        for version, (chosen, later) in enumerate(history):
            tick += later
            if chosen:
                learn(table, chosen, tick=tick)
            table.evict(tick)
            layers.append(published(learner, Path(scratch) / f"v{version}", dtype, layers))
            full = published(learner, Path(scratch) / f"full{version}", dtype, [])
            status, values = _native.Layers(layers).lookup(KEYS)
            wanted_status, wanted = full.lookup(KEYS)
            assert np.array_equal(status, wanted_status)
            assert np.array_equal(values, wanted)
            assert full.count == len(table)
            if dtype == "fp32":
                there = table.keys()
                assert _native.Layers(layers).lookup(there)[1].tobytes() == table.rows(there).tobytes()
        assert _native.Layers(layers).lookup(KEYS)[0].tolist().count(0) == len(table)
