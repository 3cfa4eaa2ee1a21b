"""What a step does to tables and network: shared rows, several labels, weights, restarts, averages."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import clickline
from clickline.config import Job
from clickline.data.dataset import Dataset
from clickline.data.schema import Schema
from clickline.train.checkpoints import checkpoint_files
from clickline.train.checkpoints.dense_tensors import load
from clickline.train.checkpoints.warm_start import restart_rows
from clickline.train.learner import Learner, weight_of
from clickline.train.session import evaluate_checkpoint
from clickline.train.weight_average import Average


@pytest.fixture
def history_log(tmp_path):
    """A click happens when the movie was seen before: only a model that reads the history can know."""
    rng = np.random.default_rng(2)
    lines = ["click,buy,user,movie,seen,weight,when"]
    for row in range(3000):
        seen = rng.choice(30, size=rng.integers(1, 6), replace=False)
        movie = rng.choice(seen) if rng.random() < 0.5 else rng.integers(0, 30)
        click = int(movie in seen)
        buy = int(click and movie % 2 == 0)
        lines.append(f"{click},{buy},u{row % 40},{movie},{'|'.join(map(str, seen))},{1 + row % 3},{1000 + row}")
    path = tmp_path / "log.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def job_for(path, tmp_path, **changes):
    settings = {
        "output": str(tmp_path / "runs"),
        "threads": 1,
        "data": {"format": "csv", "train": [str(path)], "test": [str(path)]},
        "features": {
            "labels": ["click"],
            "slots": ["user", "movie", {"name": "seen", "separator": "|", "pooling": "sequence", "keys_of": "movie"}],
        },
        "model": {"name": "din", "embedding_dim": 8, "hidden": [32], "params": {"sequence_length": 6}},
        "train": {"batch_size": 100, "epochs": 12, "optimizer": {"learning_rate": 0.01}},
        "tables": {"embedding": {"restart_epochs": False, "init_scale": 0.1}},
    }
    for section, values in changes.items():
        settings[section] = {**settings.get(section, {}), **values} if isinstance(values, dict) else values
    return Job.model_validate(settings)


def learner_of(job):
    schema = Schema.of(job.data, job.features)
    learner = Learner(job=job, schema=schema, threads=1)
    batches = Dataset(
        data=job.data, schema=schema, paths=job.data.train, batch_size=100, seed=1, shuffle=False
    ).batches(epoch=0)
    return learner, batches


def test_a_history_shares_its_items_rows_and_is_understood(history_log, tmp_path):
    result = clickline.train_job(job_for(history_log, tmp_path, features={"group": "user"}))
    assert result.test["auc"] > 0.9
    assert 0.5 < result.test["gauc"] <= 1
    learner, _ = learner_of(job_for(history_log, tmp_path))
    assert list(learner.sparse.tables) == ["embedding"]
    load(checkpoint_files.read(result.checkpoint), tables=learner.sparse.tables)
    assert len(learner.sparse.tables["embedding"]) == 40 + 30, "one row a user, one a movie, seen or not"


def test_a_key_of_two_declarations_learns_once_from_the_sum(history_log, tmp_path):
    learner, batches = learner_of(
        job_for(history_log, tmp_path, tables={"embedding": {"optimizer": {"name": "sgd", "learning_rate": 1.0}}})
    )
    batch, _ = next(batches)
    batches.close()
    pulled = learner.sparse.pull(learner.sparse.plan(batch), rows=len(batch), training=True)
    before = {name: one.rows.copy() for name, one in pulled.items()}
    for one in pulled.values():
        one.tensor.grad = torch.ones_like(one.tensor)
    one = learner.sparse.gradients(pulled, weight=1.0)["embedding"]
    table = learner.sparse.tables["embedding"]
    table.push(one.keys, one.values, one.shows, one.clicks, one.slots, tick=1)
    assert table.step == 1
    names = list(pulled)
    keys = np.intersect1d(pulled[names[0]].plan.unique, pulled[names[1]].plan.unique)
    assert len(keys) > 10
    shows = np.zeros(len(keys))
    for name in names:
        plan = pulled[name].plan
        at = {key: place for place, key in enumerate(plan.unique.tolist())}
        shows += [plan.shows[at[key]] for key in keys.tolist()]
    start = np.stack([before[names[0]][pulled[names[0]].plan.unique.tolist().index(key)] for key in keys.tolist()])
    np.testing.assert_allclose(table.rows(keys), start - shows[:, None], rtol=1e-5)
    np.testing.assert_array_equal(table.counts(keys)[:, 0], shows)


def test_a_rows_gradient_is_the_sum_over_the_batch_whatever_else_is_in_it(history_log, tmp_path):
    """The loss is a mean over rows; a table's row must not learn less because a batch is larger."""
    job = job_for(history_log, tmp_path, model={"name": "lr", "params": {}})
    learner, batches = learner_of(job)
    batch, _ = next(batches)
    batches.close()

    def gradient_of(rows, key):
        part = batch.part(0, rows)
        pulled = learner.sparse.pull(learner.sparse.plan(part), rows=rows, training=True)
        learner._differentiate(part, pulled)
        found = learner.sparse.gradients(pulled, weight=weight_of(part))["linear"]
        return found.values[found.keys.tolist().index(key)]

    key = batch.keys[0]  # user u0, who is in rows 0, 40 and 80
    alone = gradient_of(1, key)
    assert abs(alone) == pytest.approx(0.5, abs=0.01)  # a model that knows nothing errs by a half
    np.testing.assert_allclose(gradient_of(40, key), alone, rtol=1e-5)


def test_a_learner_predicts_with_the_average_and_keeps_its_parameters(history_log, tmp_path):
    learner, batches = learner_of(job_for(history_log, tmp_path, train={"average": 0.99}))
    first, _ = next(batches)
    for _ in learner.learn(batches, barrier=lambda _: False):
        pass
    raw = {name: tensor.detach().clone() for name, tensor in learner.model.named_parameters()}
    averaged = learner.predict(first)
    for name, parameter in learner.model.named_parameters():
        torch.testing.assert_close(parameter.detach(), raw[name], rtol=0, atol=0)
    with torch.no_grad():
        for name, parameter in learner.model.named_parameters():
            parameter.copy_(learner.average.tensors()[name])
    learner.average = Average(learner.model, keep=0)
    np.testing.assert_array_equal(learner.predict(first), averaged)
    with torch.no_grad():
        for name, parameter in learner.model.named_parameters():
            parameter.copy_(raw[name])
    assert np.abs(learner.predict(first) - averaged).max() > 1e-3


def test_several_labels_are_learned_and_measured_together(history_log, tmp_path):
    features = {"labels": ["click", "buy"], "slots": ["user", "movie", {"name": "seen", "separator": "|"}]}
    job = job_for(history_log, tmp_path, features=features, model={"name": "mmoe", "params": {}})
    result = clickline.train_job(job)
    assert {"auc", "buy.auc"} <= result.test.keys()
    assert result.test["buy.auc"] > 0.6


def test_a_row_of_weight_three_is_three_rows(history_log, tmp_path):
    header, *rows = history_log.read_text().splitlines()
    thrice = tmp_path / "thrice.csv"
    copies = [row for row in rows[:300] for _ in range(int(row.split(",")[5]))]
    thrice.write_text("\n".join([header, *copies]) + "\n")
    once = tmp_path / "once.csv"
    once.write_text("\n".join([header, *rows[:300]]) + "\n")
    common = {
        "model": {"name": "lr", "params": {}},
        "train": {"batch_size": 10_000, "epochs": 3, "average": 0},
        "features": {"slots": ["user", "movie"]},
    }
    plain = clickline.train_job(job_for(thrice, tmp_path, name="plain", **common))
    common["features"] = {"slots": ["user", "movie"], "weight": "weight"}
    weighted = clickline.train_job(job_for(once, tmp_path, name="weighted", **common))
    assert weighted.test["logloss"] == pytest.approx(plain.test["logloss"], abs=1e-5)
    assert weighted.test["auc"] == pytest.approx(plain.test["auc"], abs=1e-5)


def test_event_time_is_the_tables_clock(history_log, tmp_path):
    learner, batches = learner_of(job_for(history_log, tmp_path, features={"time": "when"}))
    for _ in learner.learn(batches, barrier=lambda _: False):
        pass
    table = learner.sparse.tables["embedding"]
    assert learner.tick == 1000 + 2999
    assert table.last_seen(table.keys()).min() >= 1099


def test_restarted_rows_keep_their_counts_and_lose_their_weights(history_log, tmp_path):
    job = job_for(history_log, tmp_path, tables={"embedding": {"init_scale": 0.0}})
    learner, batches = learner_of(job)
    for _ in learner.learn(batches, barrier=lambda _: False):
        pass
    table = learner.sparse.tables["embedding"]
    keys, counts = table.keys(), table.counts(table.keys())
    assert np.abs(table.rows(keys)).max() > 0
    sparse = learner.sparse
    restart_rows(sparse.tables, embeddings=sparse.embeddings, settings=job.tables, start=None)
    assert np.abs(table.rows(keys)).max() == 0
    np.testing.assert_array_equal(table.counts(keys), counts)


def test_predictions_use_the_average_and_training_does_not():
    model = torch.nn.Linear(1, 1, bias=False)
    average = Average(model, keep=0.5)
    seen = []
    for step in range(1, 30):
        with torch.no_grad():
            model.weight.fill_(step % 2)
        average.follow(step)
        with average.in_place():
            seen.append(float(model.weight.detach()))
        assert float(model.weight.detach()) == step % 2
    assert 0.3 < seen[-1] < 0.7
    assert Average(model, keep=0.0).tensors() == {}


def test_a_checkpoint_predicts_what_the_run_predicted(history_log, tmp_path):
    job = job_for(history_log, tmp_path, train={"epochs": 2, "average": 0.9})
    result = clickline.train_job(job)
    assert evaluate_checkpoint(checkpoint=result.checkpoint, paths=job.data.test) == result.test
