"""The table against a dictionary, by random histories."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from clickline._native import Table

# Few keys, some of one bucket and some at the edges, so that histories meet; whole numbers, so that sums are exact.
KEYS = st.sampled_from([0, 1, 2, 3, 2**64 - 1, 2**63, 12345, *(k * 0xF1DE83E19937733D % 2**64 for k in range(20))])
POLICIES = [(1, 1.0, 0, 0.0, 0.1, 1.0), (2, 1.0, 6, 0.0, 0.1, 1.0)]


class History(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.table = self.empty()
        self.rows: dict[int, list[float]] = {}  # weight, show, last seen
        self.waiting: dict[int, list[int]] = {}  # sightings, last seen
        self.tick = 0

    def empty(self) -> Table:
        return Table(dim=1, optimizer="sgd", learning_rate=1.0, init_scale=0.0, policies=POLICIES)

    @rule(keys=st.lists(KEYS, max_size=30, unique=True), grad=st.integers(-3, 3), wait=st.integers(0, 5))
    def push(self, keys: list[int], grad: int, wait: int) -> None:
        self.tick += wait
        n = len(keys)
        slots = np.array([key % 2 for key in keys], np.uint16)
        self.table.push(
            np.array(keys, np.uint64), np.full((n, 1), grad, np.float32), np.ones(n, np.float32),
            np.zeros(n, np.float32), slots, tick=self.tick,
        )  # fmt: skip
        for key in keys:
            if key not in self.rows:
                sightings = self.waiting.get(key, [0, 0])[0] + 1
                if sightings < POLICIES[key % 2][0]:
                    self.waiting[key] = [sightings, self.tick]
                    continue
                self.waiting.pop(key, None)
                self.rows[key] = [0.0, sightings - 1.0, 0.0]
            row = self.rows[key]
            row[:] = [row[0] - grad, row[1] + 1, self.tick]

    @rule()
    def evict(self) -> None:
        def gone(key: int, last_seen: float) -> bool:
            return bool(POLICIES[key % 2][2]) and self.tick - last_seen > POLICIES[key % 2][2]

        kept = {key: row for key, row in self.rows.items() if not gone(key, row[2])}
        assert self.table.evict(self.tick) == len(self.rows) - len(kept)
        self.rows = kept
        self.waiting = {key: entry for key, entry in self.waiting.items() if not gone(key, entry[1])}

    @rule()
    def save_and_load(self) -> None:
        with TemporaryDirectory() as folder:
            path = Path(folder) / "table"
            self.table.save(path)
            self.table = self.empty()
            self.table.load(path)

    @invariant()
    def same(self) -> None:
        keys = self.table.keys()
        assert set(keys.tolist()) == set(self.rows)
        expected = [self.rows[key] for key in keys.tolist()]
        found = np.column_stack([self.table.rows(keys), self.table.counts(keys)[:, :1], self.table.last_seen(keys)])
        assert found.tolist() == expected
        assert self.table.memory()["waiting"] == len(self.waiting)


History.TestCase.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
TestHistory = History.TestCase
