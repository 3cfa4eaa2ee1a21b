"""One training with several checkpoints, and stores filled from them: what most tests here begin with."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from clickline.config import Job
from clickline.publish import publisher
from clickline.publish.publisher import Settings, publish
from clickline.train.learner import Learner
from clickline.train.session import train_job
from clickline.versions.store import Store, open_store
from support.made_once import made_once
from support.processes import small_settings
from support.versions.trained_run import Training


@pytest.fixture(autouse=True, scope="session")
def networks_exported_once() -> Iterator[None]:
    """The same model gives the same bytes (test_onnx_networks), and making them is most of what publishing takes."""
    known: dict[bytes, bytes] = {}
    export = publisher.export

    def remembered(learner: Learner) -> bytes:
        digest = hashlib.sha256(repr((type(learner.model), learner.job.model, learner.schema)).encode())
        for name, tensor in sorted(learner.tensors().items()):
            if name.startswith(("model.", "average.")):
                digest.update(name.encode() + tensor.contiguous().numpy().tobytes())
        if digest.digest() not in known:
            known[digest.digest()] = export(learner)
        return known[digest.digest()]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(publisher, "export", remembered)
        yield


@pytest.fixture(scope="session")
def training(criteo: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Training:
    """Rows come, change and, by eviction, go between the three checkpoints."""

    def train(directory: Path) -> None:
        settings = small_settings(criteo, directory)
        settings["checkpoint"] = {"every_steps": 20, "keep": 10}
        settings["tables"] = {"eviction": {"unseen_for": 15}, "evict_every": 10}
        settings["train"] = {"batch_size": 100, "log_every": 7, "epochs": 1, "max_steps": 60, "average": 0.9}
        train_job(Job.model_validate(settings))

    run = made_once(tmp_path_factory, "trained", train) / "runs" / "small"
    return Training(run, sorted((run / "checkpoints").glob("step-*")))


@pytest.fixture(scope="session")
def _filled(training: Training, tmp_path_factory: pytest.TempPathFactory) -> Path:
    def fill(directory: Path) -> None:
        store = open_store(directory / "store")
        publish(training.checkpoints[0], store, Settings(kind="base", sample_rows=64))
        for checkpoint in training.checkpoints[1:]:
            publish(checkpoint, store, Settings(kind="delta", sample_rows=64))

    return made_once(tmp_path_factory, "filled", fill) / "store"


@pytest.fixture
def filled(_filled: Path, tmp_path: Path) -> Store:
    """A base and two deltas on it, a copy for every test."""
    return open_store(Path(shutil.copytree(_filled, tmp_path / "store")))
