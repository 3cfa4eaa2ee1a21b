"""A plan finds the distinct keys of a batch, and carries rows to the batch and gradients back, as numpy would."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from clickline._native import Plan, bucket_of

SUM, MEAN, MAX = 0, 1, 2


@dataclass
class Case:
    """Keys of each row and slot as lists, and what a plan is asked to do with them."""

    cells: list[list[list[int]]]
    columns: int
    select: list[int]
    pooling: list[int]
    labels: NDArray[np.float32]
    sequence_length: int = 0
    ragged: bool = field(init=False)

    def __post_init__(self) -> None:
        self.ragged = any(len(values) != 1 for row in self.cells for values in row)

    def plan(self, threads: int = 1) -> Plan:
        keys = np.array([key for row in self.cells for values in row for key in values], np.uint64)
        counts = [len(values) for row in self.cells for values in row]
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64) if self.ragged else None
        return Plan(keys, offsets, self.columns, self.select, self.pooling, self.labels, self.sequence_length, threads)

    def kept(self, row: int, column: int) -> list[int]:
        values = self.cells[row][column]
        return values[-self.sequence_length :] if self.sequence_length else values

    def occurrences(self) -> list[tuple[int, int, int]]:
        """(key, row, column) in batch order."""
        return [(key, r, c) for r in range(len(self.cells)) for c in self.select for key in self.kept(r, c)]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    columns = draw(st.integers(1, 4))
    rows = draw(st.integers(0, 6))
    key = st.one_of(st.integers(0, 5), st.integers(0, 2**64 - 1))
    values = st.lists(key, min_size=0, max_size=4) if draw(st.booleans()) else st.lists(key, min_size=1, max_size=1)
    cells = [[draw(values) for _ in range(columns)] for _ in range(rows)]
    select = draw(st.lists(st.integers(0, columns - 1), min_size=1, max_size=columns, unique=True))
    sequence_length = draw(st.integers(0, 3)) if len(select) == 1 else 0
    pooling = [draw(st.integers(0, 2)) for _ in select]
    labels = np.array([draw(st.sampled_from([0.0, 1.0])) for _ in range(rows)], np.float32)
    return Case(cells, columns, select, pooling, labels, sequence_length)


def gathered(case: Case, plan: Plan, rows: NDArray[np.float32]) -> NDArray[np.float64]:
    row_of = {int(key): rows[i].astype(np.float64) for i, key in enumerate(plan.unique)}
    out = np.zeros((len(case.cells), case.sequence_length or len(case.select), rows.shape[1]))
    for r in range(len(case.cells)):
        for s, column in enumerate(case.select):
            vectors = np.array([row_of[key] for key in case.kept(r, column)])
            if case.sequence_length:
                out[r, : len(vectors)] = vectors.reshape(-1, rows.shape[1])
            elif len(vectors):
                out[r, s] = (vectors.sum(0), vectors.mean(0), vectors.max(0))[case.pooling[s]]
    return out


def scattered(case: Case, plan: Plan, rows: NDArray[np.float32], grad: NDArray[np.float32]) -> NDArray[np.float64]:
    place = {int(key): i for i, key in enumerate(plan.unique)}
    out = np.zeros(rows.shape)
    for r in range(len(case.cells)):
        for s, column in enumerate(case.select):
            at = [place[key] for key in case.kept(r, column)]
            if case.sequence_length:
                for k, i in enumerate(at):
                    out[i] += grad[r, k]
            elif at and case.pooling[s] == MAX:
                for d, winner in enumerate(rows[at].argmax(0)):  # numpy's argmax is the first of equal ones, too
                    out[at[winner], d] += grad[r, s, d]
            else:
                for i in at:
                    out[i] += grad[r, s] / (len(at) if case.pooling[s] == MEAN else 1)
    return out


@given(case=cases(), dim=st.sampled_from([1, 3, 10, 16]), seed=st.integers(0, 99))
@settings(max_examples=200, deadline=None)
def test_any_batch_as_numpy_would(case: Case, dim: int, seed: int) -> None:
    plan = case.plan()
    occurrences = case.occurrences()
    first: dict[int, tuple[int, int]] = {}
    for i, (key, _, column) in enumerate(occurrences):
        first.setdefault(key, (i, column))
    order = sorted(first, key=lambda key: (bucket_of(key), first[key][0]))
    assert plan.unique.tolist() == order
    assert len(plan) == len(order)
    assert plan.slots.tolist() == [first[key][1] for key in order]
    assert plan.shows.tolist() == [sum(k == key for k, _, _ in occurrences) for key in order]
    assert plan.clicks.tolist() == [sum(k == key and case.labels[r] > 0.5 for k, r, _ in occurrences) for key in order]
    if case.sequence_length:
        assert plan.lengths.tolist() == [len(case.kept(r, case.select[0])) for r in range(len(case.cells))]

    rng = np.random.default_rng(seed)
    rows = rng.integers(-2, 3, (len(plan), dim)).astype(np.float32)  # few values, so that maxima tie
    out = np.full((len(case.cells), case.sequence_length or len(case.select), dim), np.nan, np.float32)
    plan.gather(rows, out)
    np.testing.assert_allclose(out, gathered(case, plan, rows), rtol=1e-5, atol=1e-6)
    grad = rng.standard_normal(out.shape, dtype=np.float32)
    back = np.full(rows.shape, np.nan, np.float32)
    plan.scatter(grad, rows, back)
    np.testing.assert_allclose(back, scattered(case, plan, rows, grad), rtol=1e-4, atol=1e-5)


def big(ragged: bool) -> Case:
    rng = np.random.default_rng(11)
    keys = (rng.zipf(1.2, (600, 12, 3)) % 5000).astype(np.uint64) * np.uint64(0x9E3779B185EBCA87)
    counts = rng.integers(1, 4, (600, 12)) if ragged else np.ones((600, 12), int)
    cells = [[keys[r, c, : counts[r, c]].tolist() for c in range(12)] for r in range(600)]
    return Case(cells, 12, list(range(12)), [SUM, MEAN, MAX] * 4, rng.integers(0, 2, 600).astype(np.float32))


@pytest.mark.parametrize("ragged", [False, True])
def test_any_number_of_threads_gives_the_same_bytes(ragged: bool) -> None:
    case = big(ragged)
    results = []
    for threads in (1, 2, 7):
        plan = case.plan(threads)
        rng = np.random.default_rng(3)
        rows = rng.standard_normal((len(plan), 10), dtype=np.float32)
        out = np.empty((600, 12, 10), np.float32)
        plan.gather(rows, out, threads)
        back = np.empty_like(rows)
        plan.scatter(rng.standard_normal(out.shape, dtype=np.float32), rows, back, threads)
        arrays = (plan.unique, plan.slots, plan.shows, plan.clicks, out, back)
        results.append([array.tobytes() for array in arrays])
    assert results[0] == results[1] == results[2]


def test_the_gradient_of_a_maximum_goes_to_the_first_of_equal_values() -> None:
    case = Case([[[7, 8, 9]]], 1, [0], [MAX], np.zeros(1, np.float32))
    plan = case.plan()
    values = {7: [1.0, 5.0], 8: [3.0, 5.0], 9: [3.0, 2.0]}
    rows = np.array([values[int(key)] for key in plan.unique], np.float32)
    back = np.empty_like(rows)
    plan.scatter(np.array([[[10.0, 20.0]]], np.float32), rows, back)
    assert {int(key): back[i].tolist() for i, key in enumerate(plan.unique)} == {7: [0, 20], 8: [10, 0], 9: [0, 0]}


def test_a_sequence_keeps_its_last_values_in_order() -> None:
    plan = Case([[[1, 2, 3, 4]], [[5]]], 1, [0], [SUM], np.zeros(2, np.float32), sequence_length=3).plan()
    assert sorted(plan.unique.tolist()) == [2, 3, 4, 5]
    assert plan.lengths.tolist() == [3, 1]
    out = np.full((2, 3, 1), np.nan, np.float32)
    plan.gather(plan.unique.astype(np.float32)[:, None], out)
    assert out[:, :, 0].tolist() == [[2, 3, 4], [5, 0, 0]]


def test_labels_may_be_a_column_of_several() -> None:
    labels = np.array([[1, 0], [1, 1], [0, 1]], np.float32)
    for column, expected in (
        (labels[:, 0], {4: 2, 9: 0}),
        (labels[:, 1], {4: 1, 9: 1}),
        (labels[::-1, 0], {4: 1, 9: 1}),
    ):
        plan = Plan(np.array([4, 4, 9], np.uint64), None, 1, [0], [SUM], column)
        assert dict(zip(plan.unique.tolist(), plan.clicks.tolist(), strict=True)) == expected


def test_arrays_outlive_the_plan() -> None:
    case = big(ragged=False)
    unique = case.plan().unique  # the plan itself is gone
    before = unique.copy()
    others = [case.plan() for _ in range(3)]  # would take over its memory
    assert len(others) == 3
    np.testing.assert_array_equal(unique, before)


KEYS, LABELS = np.arange(6, dtype=np.uint64), np.zeros(3, np.float32)


def test_torch_tensors_will_do() -> None:
    import torch

    plan = Plan(KEYS, None, 2, [1, 0], [0, 0], LABELS)
    rows, out = torch.rand(6, 10), torch.empty(3, 2, 10)
    plan.gather(rows, out)
    by_key = {int(key): rows[i] for i, key in enumerate(plan.unique)}
    assert torch.equal(out, torch.stack([torch.stack([by_key[2 * r + 1], by_key[2 * r]]) for r in range(3)]))
    sequence = Plan(KEYS, None, 2, [1], [0], LABELS, sequence_length=2)
    assert torch.from_numpy(sequence.lengths).tolist() == [1, 1, 1]


def test_plans_are_made_by_several_threads_at_once() -> None:
    case = big(ragged=True)
    expected = case.plan().unique.tobytes()
    found: list[bool] = []

    def work() -> None:
        found.extend(case.plan(threads=2).unique.tobytes() == expected for _ in range(5))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 15


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_plans_with_threads_of_its_own() -> None:
    case = big(ragged=False)
    expected = case.plan(threads=2).unique.tobytes()
    child = os.fork()
    if child == 0:
        os._exit(0 if case.plan(threads=2).unique.tobytes() == expected else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


EXIT_WHILE_PLANNING = """
import threading
import numpy as np
from clickline._native import Plan

keys, labels = np.arange(40_000, dtype=np.uint64), np.zeros(4000, np.float32)
started = threading.Event()

def work():
    while True:
        Plan(keys, None, 10, list(range(10)), [0] * 10, labels, threads=3)
        started.set()

threading.Thread(target=work, daemon=True).start()
started.wait()
"""


def test_the_interpreter_exits_cleanly_while_a_daemon_thread_plans() -> None:
    done = subprocess.run([sys.executable, "-c", EXIT_WHILE_PLANNING], capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode()
