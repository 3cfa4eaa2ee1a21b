"""One cluster for all tests, with the operator in it as deploy/v1 has it, and one namespace.

`make test-cluster` starts it, or uses the one that CLICKLINE_TEST_KUBECONFIG names.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from support.kubernetes.full_cluster import FullCluster, full_cluster
from support.kubernetes.jobs_client import JobsClient
from support.kubernetes.pods.pod_storage import ObjectStore, RunVolume, object_store, run_volume
from support.kubernetes.pods.shipped_examples import ShippedExample


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FullCluster]:
    with full_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def jobs(node: FullCluster) -> Iterator[JobsClient]:
    with JobsClient(node.access, f"clickline-tests-{secrets.token_hex(3)}") as client:
        try:
            client.wait(lambda: "default" in client.names("serviceaccounts"), "the account that pods run as")
            yield client
        finally:
            if not node.is_here:  # our own is gone with all that is in it
                client.kubectl("delete", "namespace", client.namespace, "--wait=false", namespaced=False)


@pytest.fixture(scope="session")
def volume(node: FullCluster, jobs: JobsClient) -> Iterator[RunVolume]:
    with run_volume(node, jobs) as volume:
        yield volume


@pytest.fixture(scope="session")
def store(node: FullCluster, jobs: JobsClient) -> Iterator[ObjectStore]:
    with object_store(node, jobs) as store:
        yield store


@pytest.fixture(scope="session")
def wide_and_deep_here(node: FullCluster, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the job of the examples with servers comes to on this machine."""
    example = ShippedExample("wide_and_deep", node, strategy="sync")
    return example.result_here(tmp_path_factory.mktemp("here"))
