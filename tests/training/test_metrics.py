"""Figures are exact: compared with the definition, written as slowly as it reads."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from clickline.train.metrics import auc, gauc, measure, sigmoid

scores = arrays.arrays(np.float64, st.integers(2, 60), elements=st.integers(-5, 5).map(float))


def slow_auc(score, label, weight):
    won = total = 0.0
    for i in np.flatnonzero(label > 0.5):
        for j in np.flatnonzero(label <= 0.5):
            pair = weight[i] * weight[j]
            total += pair
            won += pair * (1.0 if score[i] > score[j] else 0.5 if score[i] == score[j] else 0.0)
    return won / total if total else None


@given(scores, st.integers(0, 2**32 - 1))
def test_auc_counts_every_pair_and_ties_as_halves(score, seed):
    rng = np.random.default_rng(seed)
    label, weight = (rng.random(len(score)) < 0.4).astype(float), rng.random(len(score))
    assert auc(score, label) == pytest.approx(slow_auc(score, label, np.ones(len(score))))
    assert auc(score, label, weight) == pytest.approx(slow_auc(score, label, weight))


@given(scores, st.integers(0, 2**32 - 1))
def test_gauc_is_the_mean_over_groups_with_both_classes(score, seed):
    rng = np.random.default_rng(seed)
    label, group = (rng.random(len(score)) < 0.4).astype(float), rng.integers(0, 4, len(score)).astype(np.uint64)
    areas, rows = [], []
    for one in np.unique(group):
        inside = group == one
        area = slow_auc(score[inside], label[inside], np.ones(inside.sum()))
        if area is not None:
            areas.append(area)
            rows.append(inside.sum())
    wanted = np.average(areas, weights=rows) if areas else None
    assert gauc(score, label, group) == pytest.approx(wanted)


def test_order_of_rows_does_not_matter():
    rng = np.random.default_rng(0)
    score, label = rng.normal(size=10_000).astype(np.float32), (rng.random(10_000) < 0.3).astype(np.float32)
    order = rng.permutation(10_000)
    assert auc(score, label) == auc(score[order], label[order])


def test_known_inputs_give_known_figures():
    logits = np.array([2.0, -1.0, 0.5, -2.0])
    labels = np.array([1.0, 1.0, 0.0, 0.0])
    figures = measure(logits, labels)
    p = 1 / (1 + np.exp(-logits))
    assert figures.auc == 0.75
    assert figures.logloss == pytest.approx(-np.mean(labels * np.log(p) + (1 - labels) * np.log(1 - p)))
    assert figures.calibration == pytest.approx(p.sum() / 2)
    assert (figures.precision, figures.recall, figures.ctr) == (0.5, 0.5, 0.5)


def test_figures_that_rows_do_not_define_are_none_and_not_zero():
    assert measure(np.zeros(0), np.zeros(0)).auc is None
    only_clicks = measure(np.ones(3), np.ones(3))
    assert only_clicks.auc is None
    assert "auc" not in only_clicks.to_dict()


def test_extreme_logits_do_not_overflow():
    with np.errstate(all="raise", under="ignore"):
        assert sigmoid(np.array([-1e4, 1e4])).tolist() == [0.0, 1.0]
        assert measure(np.array([-1e4, 1e4]), np.array([0.0, 1.0])).logloss == 0.0
