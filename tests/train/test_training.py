"""Training from Python: it learns, and the same seed gives the same bits."""

from __future__ import annotations

import json

import numpy as np
import pytest

import clickline
from clickline.config import Job
from clickline.errors import DataError, JobError, ModelError
from clickline.train.checkpoints import checkpoint_files
from clickline.train.checkpoints.checkpoint_inspection import difference, summary
from clickline.train.session import evaluate_checkpoint


def changed(job: Job, **sections: dict[str, object]) -> Job:
    settings = job.model_dump()
    for name, value in sections.items():
        settings[name] = {**settings[name], **value} if isinstance(value, dict) else value
    return Job.model_validate(settings)


def test_a_model_learns_and_is_tested(small_job):
    result = clickline.train_job(changed(small_job, train={"epochs": 3}))
    assert result.rows == 3 * 4500
    assert result.test["auc"] > 0.6
    lines = [json.loads(line) for line in (result.directory / "metrics.jsonl").read_text().splitlines()]
    assert {line["kind"] for line in lines} == {"train", "test"}
    first = next(line for line in lines if line["kind"] == "train")
    assert {"auc", "batch_auc", "logloss", "calibration", "rows_per_second"} <= first.keys()
    assert evaluate_checkpoint(checkpoint=result.checkpoint, paths=small_job.data.test) == result.test


@pytest.mark.parametrize("staleness", [0, 1])
def test_same_seed_same_model_and_another_seed_another(small_job, staleness):
    job = changed(small_job, train={"staleness": staleness})
    one = clickline.train_job(changed(job, name="one"))
    two = clickline.train_job(changed(job, name="two"))
    three = clickline.train_job(changed(job, name="three", seed=6))
    assert one.test == two.test
    assert difference(checkpoint_files.read(one.checkpoint), checkpoint_files.read(two.checkpoint))["same"]
    assert one.test != three.test


def test_early_stopping_keeps_the_best_and_tests_it(small_job, criteo):
    job = changed(
        small_job,
        data={"valid": [criteo["test"]]},
        train={"epochs": 40, "early_stopping": {"patience": 2}},
        tables={"embedding": {"optimizer": {"learning_rate": 0.5}}},
    )
    result = clickline.train_job(job)
    lines = [json.loads(line) for line in (result.directory / "metrics.jsonl").read_text().splitlines()]
    valid = [line["auc"] for line in lines if line["kind"] == "valid"]
    assert len(valid) < 40
    assert result.test["auc"] == max(valid)


def test_several_threads_learn_the_same_table(small_job):
    """Tables do not depend on the number of threads; dense sums in PyTorch may, and lr has hardly any."""
    job = changed(small_job, model={"name": "lr"})
    one = clickline.train_job(changed(job, name="one"))
    two = clickline.train_job(changed(job, name="two", threads=2))
    assert np.isclose(one.test["auc"], two.test["auc"], atol=1e-6)


def test_summary_counts_rows_and_bytes(small_job):
    facts = summary(checkpoint_files.read(clickline.train_job(small_job).checkpoint))
    assert facts["rows_trained"] == 4500
    assert all(table["rows"] > 100 and table["bytes_per_row"] > 0 for table in facts["tables"].values())


def test_admission_and_eviction_shrink_the_table(small_job):
    def rows(name: str, **tables: object) -> int:
        job = changed(small_job, name=name, tables=tables)
        facts = summary(checkpoint_files.read(clickline.train_job(job).checkpoint))
        return sum(table["rows"] for table in facts["tables"].values())

    everything = rows("all")
    assert rows("admitted", admission={"count": 3}) < everything / 2
    assert rows("evicted", eviction={"unseen_for": 10}) < everything
    assert rows("scored", eviction={"min_score": 0.3}) < everything


def test_no_training_data_is_an_error_that_says_what_to_write(small_job):
    with pytest.raises(JobError, match=r"data\.train is empty"):
        clickline.train_job(changed(small_job, data={"train": []}))
    with pytest.raises(DataError, match="nowhere"):
        clickline.train_job(changed(small_job, data={"train": ["/nowhere/*.tsv"]}))


def test_divergence_is_named(small_job):
    wild = {"name": "sgd", "learning_rate": 100}
    job = changed(small_job, train={"epochs": 5, "optimizer": wild}, model={"name": "dnn"})
    with pytest.raises(ModelError, match=r"diverged|not finite"):
        clickline.train_job(changed(job, tables={"embedding": {"optimizer": wild}}))
