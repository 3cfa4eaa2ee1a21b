"""The job's settings reach the table."""

from __future__ import annotations

from typing import Any

import numpy as np

from clickline.config.features import Slot
from clickline.config.tables import Admission, Eviction, SparseOptimizer, Tables, TableSettings
from clickline.train.sparse_tables import build_table, policies_of


def test_settings_reach_the_table(push: Any, pull: Any) -> None:
    settings = TableSettings(
        optimizer=SparseOptimizer(name="adam", learning_rate=0.5, beta1=0.0, beta2=0.0), init_scale=0.0
    )
    table = build_table(dim=7, table=settings, tables=Tables(), slots=[Slot(name="C1")], seed=11)
    assert (table.dim, table.optimizer, table.seed) == (7, "adam", 11)
    push(table, [1], 3.0)
    np.testing.assert_allclose(table.rows(np.array([1], np.uint64)), -0.5, rtol=1e-6)


def test_a_slots_own_policy_goes_over_the_tables() -> None:
    tables = Tables(admission=Admission(count=3), eviction=Eviction(unseen_for=60))
    slots = [
        Slot(name="C1"),
        Slot(name="C2", admission=Admission(probability=0.5)),
        Slot(name="C3", eviction=Eviction(min_score=2.0, show_weight=0.2, click_weight=0.7)),
    ]
    assert policies_of(tables=tables, slots=slots) == [
        (3, 1.0, 60, 0.0, 0.1, 1.0),
        (1, 0.5, 60, 0.0, 0.1, 1.0),
        (3, 1.0, 0, 2.0, 0.2, 0.7),
    ]


def test_one_selective_slot_leaves_the_others_open(push: Any) -> None:
    slots = [Slot(name="C1"), Slot(name="C2", admission=Admission(count=2))]
    table = build_table(dim=1, table=TableSettings(), tables=Tables(), slots=slots, seed=0)
    push(table, [1], slot=0)
    push(table, [2], slot=1)
    assert table.keys().tolist() == [1]


def test_without_selection_there_are_no_policies() -> None:
    assert policies_of(tables=Tables(), slots=[Slot(name="C1"), Slot(name="C2")]) == []
