"""An operator for jobs that the command line starts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.kubernetes.api_server import TestCluster
from support.kubernetes.jobs_client import JobsClient
from support.kubernetes.operator_process import operator_process


@pytest.fixture(scope="session")
def launched(cluster: TestCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JobsClient]:
    """A namespace that an operator watches."""
    log = tmp_path_factory.mktemp("launched") / "operator.log"
    with (
        JobsClient(cluster, "launched") as client,
        operator_process(cluster, log, "--namespace", "launched", "--retry-delay", "0") as process,
    ):
        client.operator = process
        yield client
