"""Early stopping: by any figure, in its own direction, and after exactly as many epochs as the job waits."""

from __future__ import annotations

import json
from typing import Any

import pytest

import clickline
from clickline.config import Job
from clickline.config.training import Train
from clickline.config.validation.contradictions import stopping_metric_problems
from clickline.errors import JobError
from clickline.train.early_stopping import better, score

PATIENCE = 2


def settings(metric: str, **more: Any) -> Train:
    return Train.model_validate({"early_stopping": {"metric": metric, "patience": PATIENCE, **more}})


@pytest.mark.parametrize(
    ("metric", "worse", "good"),
    [
        ("auc", 0.6, 0.7),
        ("gauc", 0.6, 0.7),
        ("logloss", 0.7, 0.6),
        ("ece", 0.2, 0.1),
        ("recall@5", 0.1, 0.2),
        ("mine", 1.0, 2.0),
        ("calibration", 1.3, 0.8),
        ("calibration", 0.5, 1.2),
        ("finish.logloss", 0.7, 0.6),
    ],
)
def test_each_figure_improves_in_its_own_direction(metric, worse, good):
    train = settings(metric)
    assert better(train, {metric: good}, best=score(train, {metric: worse}))
    assert not better(train, {metric: worse}, best=score(train, {metric: good}))
    assert not better(train, {metric: good}, best=score(train, {metric: good}))
    assert not better(train, {}, best=None)


def test_a_direction_of_the_job_and_a_least_improvement():
    smaller = settings("mine", direction="min")
    assert better(smaller, {"mine": 1.0}, best=score(smaller, {"mine": 2.0}))
    least = settings("logloss", min_delta=0.1)
    assert not better(least, {"logloss": 0.55}, best=score(least, {"logloss": 0.6}))
    assert better(least, {"logloss": 0.45}, best=score(least, {"logloss": 0.6}))


@pytest.mark.parametrize("metric", ["auc", "logloss"])
def test_it_stops_exactly_patience_epochs_after_the_best_one(small_job, criteo, metric):
    job = small_job.model_dump()
    job["data"]["valid"] = [criteo["test"]]
    job["train"] |= {"epochs": 40, "early_stopping": {"patience": PATIENCE, "metric": metric}}
    job["tables"] = {"embedding": {"optimizer": {"learning_rate": 0.5}, "restart_epochs": False}}
    result = clickline.train_job(Job.model_validate(job))
    lines = [json.loads(line) for line in (result.directory / "metrics.jsonl").read_text().splitlines()]
    valid = [line[metric] for line in lines if line["kind"] == "valid"]
    best = max(valid) if metric == "auc" else min(valid)
    assert len(valid) == valid.index(best) + 1 + PATIENCE
    assert result.test[metric] == best


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ("acu", r"early_stopping.metric.*no figure 'acu'; did you mean auc"),
        ("recall@5", r"needs k in metrics.recall_at"),
        ("gauc", "gauc needs features.group"),
        ("rows", "no figure 'rows'"),
    ],
)
def test_a_figure_that_cannot_be_there_is_refused_before_training(small_job, metric, message):
    job = small_job.model_dump()
    job["train"]["early_stopping"] = {"metric": metric}
    with pytest.raises(JobError, match=message):
        clickline.train_job(Job.model_validate(job))


def test_figures_of_other_labels_and_of_ones_own_are_known():
    job = {"features": {"labels": ["label", "finish"], "group": "user", "slots": ["user"]}, "data": {"format": "csv"}}
    job |= {"metrics": {"own": ["mine.py:ndcg"], "recall_at": [3]}}
    for metric in ("finish.gauc", "ndcg", "finish.recall@3"):
        wanted = Job.model_validate(job | {"train": {"early_stopping": {"metric": metric}}})
        assert not list(stopping_metric_problems(wanted))
