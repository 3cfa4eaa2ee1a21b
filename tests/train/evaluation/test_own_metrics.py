"""Metrics of the user's own, and others that a job asks for: in validation, test and result.json of every strategy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clickline
from clickline.config import Job
from clickline.config.metric_settings import MetricSettings
from clickline.errors import JobError
from clickline.train.evaluation.metric_set import MetricSet
from clickline.train.session import evaluate_checkpoint
from support.processes import run, small_settings, write_job

OWN = """
import numpy as np

def brier(labels, predictions):
    return ((labels - predictions) ** 2).mean()

def clicked_users(labels, predictions, *, groups):
    return len(np.unique(groups[labels > 0.5]))

def nothing(labels, predictions):
    return None

def broken(labels, predictions):
    return predictions[10**9]

def careless(labels, predictions):
    predictions[:] = 0

auc = brier
CONSTANT = 3
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    file = tmp_path / "own.py"
    file.write_text(OWN, encoding="utf-8")
    return file


def metric_set(**settings: Any) -> MetricSet:
    return MetricSet.of(MetricSettings(**settings))


def test_a_function_gets_labels_and_probabilities_and_what_else_it_names(own):
    metrics = metric_set(own=[f"{own}:brier", f"{own}:clicked_users", f"{own}:nothing"], recall_at=[1])
    logits, labels = np.array([0.0, 0.0, 2.0], np.float32), np.array([1.0, 0.0, 1.0], np.float32)
    figures = metrics.measure(logits, labels, groups=np.array([7, 7, 9], np.uint64)).to_dict()
    assert figures["brier"] == pytest.approx((0.25 + 0.25 + (1 - 1 / (1 + np.exp(-2))) ** 2) / 3)
    assert (figures["clicked_users"], figures["recall@1"], figures["recall"]) == (2, 0.75, 1.0)
    assert "nothing" not in figures


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing", r"has no function 'missing'; its functions are: brier, clicked_users, nothing, broken"),
        ("CONSTANT", r"has no function 'CONSTANT'"),
        ("auc", r"has the name of a figure that is measured anyway"),
    ],
)
def test_what_cannot_be_a_metric_is_told_before_training(own, name, message):
    with pytest.raises(JobError, match=message):
        metric_set(own=[f"{own}:{name}"])


def test_a_metric_that_fails_is_named_and_none_changes_the_predictions(own):
    logits, labels = np.zeros(3, np.float32), np.ones(3, np.float32)
    with pytest.raises(JobError, match=r"own.py:broken failed on 3 rows with IndexError"):
        metric_set(own=[f"{own}:broken"]).measure(logits, labels)
    with pytest.raises(JobError, match=r"own.py:careless failed on 3 rows with ValueError: .*read-only"):
        metric_set(own=[f"{own}:careless"]).measure(logits, labels)


def test_two_functions_of_one_name_are_refused(own, tmp_path):
    (tmp_path / "other.py").write_text(OWN, encoding="utf-8")
    with pytest.raises(JobError, match="two functions called 'brier'"):
        metric_set(own=[f"{own}:brier", f"{tmp_path / 'other.py'}:brier"])


CLUSTERS = {
    "single": {},
    "async": {"cluster": {"pservers": 1, "trainers": 2, "threads": 1}},
    "collective": {"strategy": "collective", "cluster": {"trainers": 2, "threads": 1}},
}


@pytest.mark.parametrize("strategy", CLUSTERS)
def test_every_strategy_measures_what_the_job_asks_for(strategy, own, criteo, tmp_path):
    settings = small_settings(criteo, tmp_path) | {
        "features": {"group": "C1"},
        "metrics": {"threshold": 0.3, "recall_at": [5], "own": [f"{own}:brier", f"{own}:clicked_users"]},
        **CLUSTERS[strategy],
    }
    settings["data"] |= {"valid": [criteo["test"]]}
    job = write_job(tmp_path / "job.yaml", settings)
    done = run("train", job)
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "runs" / "small" / "result.json").read_text())
    asked = {"precision", "recall", "recall@5", "pos_neg_ratio", "positives_per_negative", "ece", "gauc"}
    assert asked | {"brier", "clicked_users"} <= result["test"].keys()
    lines = (tmp_path / "runs" / "small" / "metrics.jsonl").read_text().splitlines()
    assert {(line["kind"], line["epoch"]) for line in map(json.loads, lines)} == {
        ("train", 1),
        ("valid", 1),
        ("test", 1),
    }
    figures = evaluate_checkpoint(checkpoint=Path(result["checkpoint"]), paths=[criteo["test"]])
    assert result["test"] == pytest.approx(figures, abs=1e-6)
    tested = next(line for line in done.stdout.splitlines() if line.startswith("test: "))
    if strategy != "collective":  # whose ranks have logs of their own
        assert tested in done.stderr
        assert "% of the epoch" in done.stderr
    for name in ("auc", "logloss", "calibration", "ece", "gauc", "recall@5", "brier"):
        assert f"{name} {result['test'][name]:.5f}" in tested


def test_a_threshold_of_the_job_changes_precision_but_not_auc(small_job):
    one = clickline.train_job(small_job).test
    settings = small_job.model_dump() | {"name": "other", "metrics": {"threshold": 0.05}}
    other = clickline.train_job(Job.model_validate(settings)).test
    assert one["auc"] == other["auc"]
    assert one["recall"] < other["recall"]
