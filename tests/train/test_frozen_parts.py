"""Frozen parts of a model keep every bit of what they started with, whatever the strategy; the rest learns."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import clickline
from clickline.config import Job
from clickline.errors import ClicklineError
from clickline.publish.checkpoint_source import open_checkpoint_source
from clickline.train.checkpoints import checkpoint_files
from clickline.train.checkpoints.dense_tensors import dense_tensors
from clickline.train.preflight import check_job
from support.processes import small_settings


def job(criteo: dict[str, str], directory: Path, frozen: Sequence[str], **changes: Any) -> Job:
    settings = small_settings(criteo, directory) | changes
    # Decay of weights moves also what has no gradient, and an average is moved by every step.
    optimizer = {"name": "adamw", "weight_decay": 0.1, "learning_rate": 0.01}
    train = {"batch_size": 100, "epochs": 1, "max_steps": 6, "optimizer": optimizer, "average": 0.9}
    return Job.model_validate(settings | {"train": train | {"frozen": list(frozen)}})


def dense(checkpoint: Path) -> dict[str, bytes]:
    """Parameters and their averages."""
    tensors = dense_tensors(checkpoint_files.read(checkpoint))
    return {name: t.numpy().tobytes() for name, t in tensors.items() if name.startswith(("model.", "average."))}


def rows(checkpoint: Path, table: str) -> dict[int, bytes]:
    """Weights and optimizer state of each key."""
    found = open_checkpoint_source(checkpoint, threads=1).learner.sparse.tables[table]
    keys = found.keys()
    whole = zip(keys.tolist(), found.rows(keys), found.states(keys), strict=True)
    return {key: weights.tobytes() + state.tobytes() for key, weights, state in whole}


@pytest.mark.parametrize(
    ("strategy", "cluster"),
    [
        ("single", {}),
        pytest.param("sync", {"pservers": 2, "trainers": 1}, marks=pytest.mark.heavy),
        pytest.param("async", {"pservers": 1, "trainers": 1}, marks=pytest.mark.heavy),
        pytest.param("half_async", {"pservers": 1, "trainers": 1}, marks=pytest.mark.heavy),
        pytest.param("geo", {"pservers": 1, "trainers": 1, "agree": {"geo_steps": 2}}, marks=pytest.mark.heavy),
        pytest.param("collective", {"trainers": 2, "piece_bytes": 100_000}, marks=pytest.mark.heavy),
    ],
)
def test_frozen_parts_keep_every_bit(
    strategy: str, cluster: dict[str, Any], criteo: dict[str, str], trained_model: Path, tmp_path: Path
) -> None:
    frozen = ["mlp"] if strategy == "geo" else ["mlp", "embed*"]
    wanted = job(criteo, tmp_path, frozen, strategy=strategy, cluster=cluster)
    result = clickline.train_job(wanted, warm_start=trained_model)
    before, after = dense(trained_model), dense(result.checkpoint)
    kept = {name for name in before if ".mlp." in name}
    assert len(kept) >= 4
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}
    assert any(after[name] != before[name] for name in before.keys() - kept)
    if strategy != "geo":
        # No row has changed, and none has come for keys that were not known.
        assert rows(result.checkpoint, "embedding") == rows(trained_model, "embedding")
    assert rows(result.checkpoint, "linear") != rows(trained_model, "linear")


@pytest.mark.parametrize(
    ("frozen", "changes", "message"),
    [
        (["mpl"], {}, r"train\.frozen\[0\].*'mpl' names no part of DeepFM; did you mean mlp\?"),
        (["mlp", "*"], {}, "nothing of the model is left to learn"),
        (
            ["embedding"],
            {"strategy": "geo", "cluster": {"pservers": 1}},
            "the table embedding cannot be frozen under geo.*use async",
        ),
        (["linear"], {"tables": {"eviction": {"unseen_for": 5}}}, "the table linear is frozen, but eviction"),
    ],
)
def test_what_cannot_be_frozen_is_told_before_training(
    frozen: list[str], changes: dict[str, Any], message: str, criteo: dict[str, str], tmp_path: Path
) -> None:
    with pytest.raises(ClicklineError, match=message):
        check_job(job(criteo, tmp_path, frozen, **changes))
