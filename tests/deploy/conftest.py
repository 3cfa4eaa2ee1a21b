"""One namespace of the API server that all tests of a process share, and the client of the command line for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from clickline.launch.kubernetes.cluster_access import find_cluster
from clickline.launch.kubernetes.cluster_client import ClusterClient
from support.kubernetes.api_server import TestCluster
from support.kubernetes.jobs_client import JobsClient

NAMESPACE = "suites"


@pytest.fixture(scope="session")
def suites(cluster: TestCluster) -> Iterator[JobsClient]:
    with JobsClient(cluster, NAMESPACE) as client:
        yield client


@pytest.fixture(scope="session")
def cluster_client(cluster: TestCluster, suites: JobsClient) -> Iterator[ClusterClient]:
    with ClusterClient(find_cluster({"KUBECONFIG": str(cluster.kubeconfig)})) as client:
        yield client
