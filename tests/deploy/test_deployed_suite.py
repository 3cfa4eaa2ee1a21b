"""A suite in a cluster, as far as an API server shows it: made, made again, changed, found, removed. No pod runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clickline.config.loading.reader import checked_settings
from clickline.deploy.deployed_health import examine_deployed
from clickline.deploy.deployed_suite import DeployedSuite
from clickline.deploy.suite_deployment import SuiteDeployment
from clickline.deploy.suite_objects import ClusterFeatures, suite_objects
from clickline.deploy.values import Values
from clickline.errors import PeerError
from clickline.launch.kubernetes.cluster_client import ClusterClient

NAMESPACE = "suites"
# Claims that are made would stay: to let go of them is the work of a controller that is not here.
WITHOUT_CLAIMS: dict[str, Any] = {"storage": {"claim": "there"}, "cube": {"storage": ""}, "transfer": {"storage": ""}}


def deployment(
    client: ClusterClient, *, namespace: str = NAMESPACE, name: str = "made", **given: Any
) -> SuiteDeployment:
    values = checked_settings({"name": name, **WITHOUT_CLAIMS, **given}, Values, source="values")
    files = suite_objects(values, namespace=namespace, beside=Path(), features=ClusterFeatures.of(client))
    return SuiteDeployment(client, values, files, namespace=namespace)


@pytest.fixture
def suite(cluster_client: ClusterClient) -> DeployedSuite:
    made = deployment(cluster_client)
    made.make()
    return made.suite


def everything(suite: DeployedSuite) -> set[str]:
    kinds = ("Deployment", "StatefulSet", "Service", "ConfigMap", "Secret", "Job", "NetworkPolicy", "Role")
    return {f"{kind} {body['metadata']['name']}" for kind in kinds for body in suite.objects(kind)}


def test_made_again_it_changes_what_differs_and_keeps_the_token(
    cluster_client: ClusterClient, suite: DeployedSuite
) -> None:
    before, token = everything(suite), suite.token()
    deployment(cluster_client).make()
    assert (everything(suite), suite.token()) == (before, token)
    other = deployment(cluster_client, data={"rows": 7000}, predictor={"replicas": 3})
    other.make()
    changed = everything(suite)
    # Training by another plan is another Job, in place of the one before.
    assert {one.split()[0] for one in changed ^ before} == {"Job"}
    assert len(changed) == len(before)
    (predictor,) = suite.objects("Deployment", part="predictor")
    assert predictor["spec"]["replicas"] == 3


def test_it_is_not_well_while_no_pod_is_there(suite: DeployedSuite) -> None:
    health = examine_deployed(suite)
    assert not health["well"]
    assert "made-predictor: 0 of 1 pods are there" in health["complaints"]


def test_the_predictor_is_scaled(suite: DeployedSuite) -> None:
    suite.scale_predictor(4)
    assert suite.client.get("Deployment", NAMESPACE, "made-predictor")["spec"]["replicas"] == 4


def test_an_address_inside_the_cluster_is_no_address_for_a_client(suite: DeployedSuite) -> None:
    with pytest.raises(PeerError, match="to NodePort or LoadBalancer"):
        suite.predictor_url()


def test_removed_it_leaves_nothing_and_no_other_suite_is_touched(
    cluster_client: ClusterClient, suite: DeployedSuite
) -> None:
    other = deployment(cluster_client, name="other")
    other.make()
    kept = everything(other.suite)
    removed = suite.remove(keep_data=False, seconds=60)
    assert len(removed) > 20
    assert everything(suite) == set()
    assert everything(other.suite) == kept
    with pytest.raises(PeerError, match="there is no suite 'made'"):
        examine_deployed(suite)
    assert suite.remove(keep_data=False, seconds=60) == []


def test_a_namespace_that_is_not_there_is_told_before_anything_is_made(cluster_client: ClusterClient) -> None:
    with pytest.raises(PeerError, match="kubectl create namespace nowhere"):
        deployment(cluster_client, namespace="nowhere").make()


def test_everything_that_the_cluster_refuses_is_told_at_once(cluster_client: ClusterClient) -> None:
    values = checked_settings({"name": "refused", **WITHOUT_CLAIMS}, Values, source="values")
    files = suite_objects(values, namespace=NAMESPACE, beside=Path(), features=ClusterFeatures.of(cluster_client))
    deployments = [body for bodies in files.values() for body in bodies if body["kind"] == "Deployment"]
    for body in deployments:
        body["spec"]["template"]["spec"]["containers"][0]["name"] = "Not A Name"
    refused = SuiteDeployment(cluster_client, values, files, namespace=NAMESPACE)
    with pytest.raises(PeerError) as caught:
        refused.make()
    assert str(caught.value).count("Not A Name") == len(deployments) == 4
    assert everything(refused.suite) == set()
