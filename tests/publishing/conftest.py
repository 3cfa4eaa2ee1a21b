"""One training with several checkpoints, and stores filled from them: what most tests here begin with."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from trainings import Training

from clickline.config import Job
from clickline.publish.publishing import Settings, publish
from clickline.publish.stores import Store, open_store
from clickline.train.api import train_job
from processes import small_settings


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> Iterator[None]:
    """These tensors are so small that handing them to a second one costs more than it saves."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def training(criteo: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Training:
    """Rows come, change and, by eviction, go between the three checkpoints."""
    settings = small_settings(criteo, tmp_path_factory.mktemp("trained"))
    settings["checkpoint"] = {"every_steps": 20, "keep": 10}
    settings["tables"] = {"eviction": {"unseen_for": 15}, "evict_every": 10}
    settings["train"] = {"batch_size": 100, "log_every": 7, "epochs": 1, "max_steps": 60, "average": 0.9}
    job = Job.model_validate(settings)
    result = train_job(job)
    return Training(result.directory, sorted((result.directory / "checkpoints").glob("step-*")))


@pytest.fixture(scope="session")
def _filled(training: Training, tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = open_store(tmp_path_factory.mktemp("filled") / "store")
    publish(training.checkpoints[0], store, Settings(kind="base", sample_rows=64))
    for checkpoint in training.checkpoints[1:]:
        publish(checkpoint, store, Settings(kind="delta", sample_rows=64))
    return Path(store.url)


@pytest.fixture
def filled(_filled: Path, tmp_path: Path) -> Store:
    """A base and two deltas on it, a copy for every test."""
    return open_store(Path(shutil.copytree(_filled, tmp_path / "store")))
