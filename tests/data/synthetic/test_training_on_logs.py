"""The job that comes with a synthetic log is valid, and trains as it stands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import clickline
from support.data.log_kinds import KINDS

SMALL = ["train.epochs=1", "train.batch_size=100", "model.embedding_dim=4", "model.hidden=[16]", "threads=1"]
MODELS = [
    ("criteo", "wide_deep", []),
    ("movielens", "din", []),
    ("movielens", "mmoe", ["model.name=mmoe", "model.params={}", "features.labels=[label,finish]"]),
    ("slots", "deepfm", []),
]


@pytest.mark.parametrize("compress", ["none", "gzip"])
def test_the_job_is_valid_and_names_the_files(tmp_path: Path, kind: Any, compress: str) -> None:
    facts = kind.write(tmp_path / "log", rows=1000, seed=3, test_rows=200, files=2, compress=compress, **kind.options)
    job = clickline.read_job(facts["files"]["job"]).job
    assert (job.name, job.train.epochs) == ("log", 2)
    assert (job.data.train, job.data.test) == (facts["files"]["train"], facts["files"]["test"])
    assert all(Path(path).is_file() for path in [*job.data.train, *job.data.test])


@pytest.mark.parametrize(("name", "model", "overrides"), MODELS, ids=[f"{name}-{model}" for name, model, _ in MODELS])
def test_each_log_trains(tmp_path: Path, name: str, model: str, overrides: list[str]) -> None:
    kind = next(kind for kind in KINDS if kind.name == name)
    facts = kind.write(tmp_path / "log", rows=3000, seed=3, test_rows=1000, **kind.options)
    settings = [*SMALL, f"output={tmp_path / 'runs'}", *overrides]
    job = clickline.read_job(facts["files"]["job"], overrides=settings).job
    assert job.model.name == model
    result = clickline.train_job(job)
    assert result.rows == 2000
    assert 0.52 < result.test["auc"] < facts["test"]["best_auc"] + 0.01
