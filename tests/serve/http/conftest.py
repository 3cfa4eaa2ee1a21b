"""A server with a predictor that computes nothing; and a model for those that compute."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from support.doubles.serving_doubles import Server, serving
from support.serving.raw_http import Talk
from support.versions.model_versions import ModelVersions


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
def versions(trained_model: Path, tmp_path_factory: pytest.TempPathFactory) -> ModelVersions:
    """A store with a version of a model that was really trained, and what it must answer."""
    return ModelVersions(tmp_path_factory.mktemp("published") / "store", trained_model)
