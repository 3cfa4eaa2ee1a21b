"""One cluster for all tests: `make test-cluster` starts it, and the operator runs in it as deploy/v1 has it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.kubernetes.full_cluster import FullCluster, full_cluster
from support.kubernetes.jobs_client import JobsClient
from support.kubernetes.shipped_examples import ShippedExample


@pytest.fixture(scope="session")
def node() -> Iterator[FullCluster]:
    with full_cluster() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def jobs(node: FullCluster) -> Iterator[JobsClient]:
    with JobsClient(node.access, "training") as client:
        client.wait(lambda: "default" in client.names("serviceaccounts"), "the account that pods run as")
        yield client


@pytest.fixture
def place(node: FullCluster, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A directory that pods can mount and write to."""
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name.removeprefix("test_"))
    directory = node.shared / name[:60]
    directory.mkdir()
    directory.chmod(0o777)
    yield directory
    shutil.rmtree(directory)


@pytest.fixture(scope="session")
def wide_and_deep_here(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the job of the examples with servers comes to on this machine."""
    return ShippedExample("wide_and_deep", strategy="sync").result_here(tmp_path_factory.mktemp("here"))
