"""A server with a predictor that computes nothing; and a model for those that compute."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from raw_http import Talk
from serving_doubles import Server, serving

from clickline.config import Job
from clickline.train.api import train_job
from model_versions import ModelVersions
from processes import small_settings


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with serving(tmp_path) as running:
        yield running


@pytest.fixture
def talk(server: Server) -> Iterator[Talk]:
    with server.connect() as connection:
        yield Talk(connection)


@pytest.fixture
def client(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, trust_env=False, timeout=20) as made:
        yield made


@pytest.fixture(scope="session")
def versions(criteo: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> ModelVersions:
    """A store with a version of a model that was really trained, and what it must answer."""
    settings = small_settings(criteo, tmp_path_factory.mktemp("trained"))
    settings["train"] = {"batch_size": 100, "log_every": 20, "epochs": 1, "max_steps": 20}
    checkpoint = train_job(Job.model_validate(settings)).checkpoint
    return ModelVersions(tmp_path_factory.mktemp("published") / "store", checkpoint)
