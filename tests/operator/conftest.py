"""One operator on the API server that all tests of a process share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.kubernetes.api_server import TestCluster
from support.kubernetes.jobs_client import JobsClient
from support.kubernetes.operator_process import operator_process

OPTIONS = ("--namespace", "jobs", "--retry-delay", "0", "--completing", "600", "--progress-every", "0.2")


@pytest.fixture(scope="session")
def jobs(cluster: TestCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JobsClient]:
    """A namespace that an operator watches, with exactly the rights that it is installed with."""
    log = tmp_path_factory.mktemp("operator") / "operator.log"
    with (
        JobsClient(cluster, "jobs") as client,
        operator_process(cluster, log, *OPTIONS) as process,
    ):
        client.operator = process
        yield client
