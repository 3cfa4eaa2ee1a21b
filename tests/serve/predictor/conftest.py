"""One small training, published as a base and two deltas: three versions whose predictions differ and are known."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from clickline.config import Job
from clickline.publish.publisher import Settings, publish
from clickline.serve.predictor.served_model import ServedModel
from clickline.train.session import train_job
from clickline.versions.store import open_store
from support.processes import small_settings
from support.serving.raw_rows import criteo_rows, trained_on
from support.versions.known_versions import Known


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def _published(criteo: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Known:
    settings = small_settings(criteo, tmp_path_factory.mktemp("trained"))
    settings["checkpoint"] = {"every_steps": 20, "keep": 10}
    settings["train"] = {"batch_size": 100, "log_every": 20, "epochs": 1, "max_steps": 60}
    result = train_job(Job.model_validate(settings))
    store = open_store(tmp_path_factory.mktemp("published") / "store")
    rows, text = criteo_rows(criteo["test"], 40)
    expected = {}
    for number, checkpoint in enumerate(sorted((result.directory / "checkpoints").glob("step-*")), 1):
        publish(checkpoint, store, Settings(kind="base" if number == 1 else "delta", sample_rows=64))
        expected[number] = trained_on(checkpoint, text)
    assert list(expected) == [1, 2, 3]
    assert min(np.abs(expected[a] - expected[b]).max() for a, b in ((1, 2), (2, 3), (1, 3))) > 1e-3
    return Known(store, rows, expected)


@pytest.fixture
def known(_published: Known, tmp_path: Path) -> Known:
    """A copy of the store for every test."""
    copy = shutil.copytree(_published.store.url, tmp_path / "store")
    return Known(open_store(copy), _published.rows, _published.expected)


@pytest.fixture
def served(known: Known) -> ServedModel:
    """The model, with its newest version loaded; nobody looks for another but the test."""
    found = ServedModel("ctr", known.store, interval=3600)
    assert found.refresh(), found.status()
    return found
