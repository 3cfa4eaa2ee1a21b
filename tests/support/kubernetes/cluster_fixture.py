"""One API server with the operator's definition and rights in it, for all tests of a process, whatever their room."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.kubernetes.api_server import TestCluster, test_cluster
from support.kubernetes.jobs_client import JobsClient

DEPLOY = Path(__file__).parents[3] / "deploy"


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestCluster]:
    """A cluster in which deploy/v1 is installed."""
    with test_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        with JobsClient(cluster, "default") as client:
            files = [DEPLOY / "v1" / "crd.yaml", DEPLOY / "v1" / "operator.yaml"]
            client.kubectl("apply", "-f", str(files[0]), "-f", str(files[1]), namespaced=False)
            client.kubectl("wait", "--for=condition=Established", "crd/paddlejobs.batch.paddlepaddle.org")
            # kubectl refuses misspelt fields by a document that the API server publishes a little later.
            explain = ("explain", "pdj.spec.cleanPodPolicy")
            client.wait(lambda: client.kubectl(*explain, check=False).returncode == 0, "the definition's schema")
        shutil.rmtree(cluster.directory / ".kube")  # where kubectl remembers what was known before
        yield cluster
