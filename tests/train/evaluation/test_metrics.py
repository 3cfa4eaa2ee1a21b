"""Figures are exact: compared with the definition, written as slowly as it reads."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from clickline.train.evaluation.calibration import calibration_bins, expected_calibration_error
from clickline.train.evaluation.metrics import auc, gauc, measure, sigmoid
from clickline.train.evaluation.recall import recall_at

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


@pytest.mark.parametrize(
    ("threshold", "precision", "recall"), [(0.2, 0.5, 1.0), (0.6, 1.0, 0.5), (0.9, None, 0.0), (0.62, 1.0, 0.5)]
)
def test_precision_and_recall_are_those_of_the_threshold(threshold, precision, recall):
    logits = np.log(np.array([0.8, 0.3, 0.6, 0.25]) / (1 - np.array([0.8, 0.3, 0.6, 0.25])))
    figures = measure(logits - 1e-9, np.array([1.0, 1.0, 0.0, 0.0]), threshold=threshold)
    assert (figures.precision, figures.recall) == (precision, recall)


def test_pairs_and_labels_have_their_ratios():
    # One of two clicks is above both others, the other click ties with one and is below one: 2 right, 2 not.
    figures = measure(np.array([3.0, 1.0, 1.0, 2.0]), np.array([1.0, 1.0, 0.0, 0.0]))
    assert figures.pos_neg_ratio == 1.0
    assert measure(np.array([3.0, 1.0]), np.array([1.0, 0.0])).pos_neg_ratio is None
    assert measure(np.zeros(5), np.array([1.0, 0, 0, 0, 0])).positives_per_negative == 0.25
    weighted = measure(np.zeros(2), np.array([1.0, 0.0]), weights=np.array([3.0, 2.0]))
    assert weighted.positives_per_negative == 1.5


def slow_recall(score, label, k):
    """By drawing all orders of ties: the expected share of clicks among the first k."""
    taken = 0.0
    for value in np.unique(score):
        above, tied = (score > value).sum(), score == value
        taken += label[tied].sum() * min(max(k - above, 0), tied.sum()) / tied.sum()
    return taken / label.sum() if label.sum() else None


@given(scores, st.integers(0, 2**32 - 1), st.integers(1, 70))
def test_recall_at_k_is_the_mean_over_groups_with_clicks(score, seed, k):
    rng = np.random.default_rng(seed)
    label, group = (rng.random(len(score)) < 0.4).astype(float), rng.integers(0, 4, len(score)).astype(np.uint64)
    each = [slow_recall(score[group == one], label[group == one], k) for one in np.unique(group)]
    clicked = [value for value in each if value is not None]
    assert recall_at(score, label, group, k=k) == pytest.approx(np.mean(clicked) if clicked else None)
    assert recall_at(score, label, None, k=k) == pytest.approx(slow_recall(score, label, k))


def test_bins_hold_equally_many_rows_and_the_error_is_the_mean_distance():
    probabilities = np.array([0.1, 0.1, 0.2, 0.2, 0.9, 0.9, 0.9, 0.9])
    labels = np.array([0.0, 0, 0, 1, 1, 1, 1, 0])
    bins = calibration_bins(probabilities, labels, np.ones(8), bins=2)
    assert [(one.rows, one.low, one.high, one.observed) for one in bins] == [(4, 0.1, 0.2, 0.25), (4, 0.9, 0.9, 0.75)]
    assert [one.predicted for one in bins] == pytest.approx([0.15, 0.9])
    assert expected_calibration_error(bins) == pytest.approx((0.1 + 0.15) / 2)
    assert expected_calibration_error([]) is None


@given(scores, st.integers(0, 2**32 - 1))
def test_rows_in_another_order_have_the_same_bins(score, seed):
    rng = np.random.default_rng(seed)
    label, weight, order = (rng.random(len(score)) < 0.4) * 1.0, rng.random(len(score)), rng.permutation(len(score))
    one, other = (
        calibration_bins(sigmoid(score)[rows], label[rows], weight[rows], bins=5) for rows in (slice(None), order)
    )
    assert sum(each.rows for each in one) == len(score)
    assert [(a.rows, a.low, a.high) for a in one] == [(b.rows, b.low, b.high) for b in other]
    assert expected_calibration_error(one) == pytest.approx(expected_calibration_error(other))


def test_figures_that_rows_do_not_define_are_none_and_not_zero():
    assert measure(np.zeros(0), np.zeros(0)).auc is None
    only_clicks = measure(np.ones(3), np.ones(3))
    assert only_clicks.auc is None
    assert "auc" not in only_clicks.to_dict()


def test_extreme_logits_do_not_overflow():
    with np.errstate(all="raise", under="ignore"):
        assert sigmoid(np.array([-1e4, 1e4])).tolist() == [0.0, 1.0]
        assert measure(np.array([-1e4, 1e4]), np.array([0.0, 1.0])).logloss == 0.0
