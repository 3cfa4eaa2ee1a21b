"""The objects of a suite: accepted by an API server, known field by field to a current Kubernetes, changed by values.

The API server of the tests is 1.20, which has neither policy/v1 nor autoscaling/v2: objects of these are validated
against the schemas of a current one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from clickline.config.loading.reader import checked_settings
from clickline.deploy.deployed_suite import MANAGER
from clickline.deploy.suite_objects import FILES, ClusterFeatures, as_text, suite_objects
from clickline.deploy.values import Values
from clickline.launch.kubernetes.cluster_client import ClusterClient
from support.kubernetes.jobs_client import JobsClient

CURRENT = "1.37"
OLD = ClusterFeatures(disruption_budgets=False, autoscaling=False)
NAMESPACE = "suites"
VARIANTS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "all-in-one-process": {"training": {"pservers": 0, "trainers": 1}, "client": False, "network_policies": False},
    "tls": {"predictor": {"tls_secret": "certificate", "service": "LoadBalancer", "max_replicas": 4}},
    "window": {"data": {"start": "20240101/00", "end": "20240101/03"}, "cube": {"storage": ""}},
    "paths": {
        "data": {"source": "paths", "train": ["s3://bucket/%Y%m%d/%H/*"], "done": "s3://bucket/%Y%m%d/%H/donefile"},
        "training": {
            "volumes": [{"claim": "logs", "path": "/logs", "read_only": True}],
            "secrets": [{"variable": "AWS_SECRET_ACCESS_KEY", "secret": "s3", "key": "key"}],
            "environment": {"AWS_REGION": "x"},
            "queue": "ctr",
        },
        "storage": {"claim": "shared"},
    },
}


def values_of(given: dict[str, Any]) -> Values:
    return checked_settings(given, Values, source="values")


def objects_of(given: dict[str, Any], features: ClusterFeatures | None = None) -> list[dict[str, Any]]:
    files = suite_objects(values_of(given), namespace=NAMESPACE, beside=Path(), features=features)
    return [body for bodies in files.values() for body in bodies]


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_current_kubernetes_knows_every_field(variant: str) -> None:
    for body in objects_of(VARIANTS[variant]):
        kubernetes_validate.validate(body, CURRENT, strict=True)


@pytest.mark.parametrize("variant", VARIANTS)
def test_kubectl_applies_the_printed_files(suites: JobsClient, variant: str) -> None:
    files = suite_objects(values_of(VARIANTS[variant]), namespace=NAMESPACE, beside=Path(), features=OLD)
    text = "".join(as_text(bodies) for bodies in files.values())
    ended = suites.kubectl("apply", "--dry-run=server", "-f", "-", given=text)
    accepted = [line for line in ended.stdout.splitlines() if line.endswith("(server dry run)")]
    assert len(accepted) == sum(map(len, files.values()))


def test_the_files_have_the_names_of_elasticctr() -> None:
    assert (
        set(suite_objects(values_of({}), namespace="n", beside=Path()))
        == set(FILES)
        == {
            "fileserver.yaml",
            "cube.yaml",
            "transfer.yaml",
            "paddleserving.yaml",
            "ctr.yaml",
            "paddleclient.yaml",
        }
    )


def test_what_a_cluster_does_not_know_is_left_out() -> None:
    given = {"predictor": {"max_replicas": 4}}
    newer = {"PodDisruptionBudget", "HorizontalPodAutoscaler"}
    assert newer <= {body["kind"] for body in objects_of(given)}
    assert not newer & {body["kind"] for body in objects_of(given, OLD)}


def test_no_secret_and_no_host_path_is_in_any_object() -> None:
    for variant in VARIANTS.values():
        for body in objects_of(variant):
            assert body["kind"] != "Secret"
            assert "hostPath" not in str(body)
            assert "nodeSelector" not in str(body)


def pods_of(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if "template" in body.get("spec", {}):
        yield body["spec"]["template"]["spec"]


def test_every_server_has_probes_and_every_container_resources() -> None:
    for body in objects_of({}):
        for pod in pods_of(body):
            for container in pod["containers"]:
                assert set(container["resources"]["requests"]) == {"cpu", "memory"}, container["name"]
                assert not container.get("ports") or "livenessProbe" in container, container["name"]


# Each value, and where what it changes is in the object that the API server has then: kind, name, path.
CHANGES: list[tuple[dict[str, Any], str, str, str, Any]] = [
    ({"image": "other:1"}, "Deployment", "x-predictor", "spec.template.spec.containers.0.image", "other:1"),
    ({"pull_policy": "Never"}, "StatefulSet", "x-cube-0", "spec.template.spec.containers.1.imagePullPolicy", "Never"),
    ({"pull_secret": "pull"}, "Deployment", "x-transfer", "spec.template.spec.imagePullSecrets.0.name", "pull"),
    (
        {"token_secret": "other"},
        "Deployment",
        "x-predictor",
        "spec.template.spec.containers.0.env.0.valueFrom.secretKeyRef.name",
        "other",
    ),
    ({"cube": {"shards": 3}}, "StatefulSet", "x-cube-2", "spec.template.metadata.labels.clickline~dev/shard", "2"),
    ({"cube": {"replicas": 3}}, "StatefulSet", "x-cube-1", "spec.replicas", 3),
    ({"cube": {"cpu": 3}}, "StatefulSet", "x-cube-0", "spec.template.spec.containers.0.resources.requests.cpu", "3"),
    (
        {"cube": {"memory": "7Gi"}},
        "StatefulSet",
        "x-cube-0",
        "spec.template.spec.containers.0.resources.limits.memory",
        "7Gi",
    ),
    (
        {"cube": {"agent": {"memory": "3Gi"}}},
        "StatefulSet",
        "x-cube-0",
        "spec.template.spec.containers.1.resources.limits.memory",
        "3Gi",
    ),
    (
        {"cube": {"storage": "99Gi"}},
        "StatefulSet",
        "x-cube-0",
        "spec.volumeClaimTemplates.0.spec.resources.requests.storage",
        "99Gi",
    ),
    (
        {"storage": {"storage_class": "fast"}},
        "StatefulSet",
        "x-cube-0",
        "spec.volumeClaimTemplates.0.spec.storageClassName",
        "fast",
    ),
    ({"storage": {"size": "77Gi"}}, "PersistentVolumeClaim", "x-store", "spec.resources.requests.storage", "77Gi"),
    (
        {"storage": {"access": "ReadWriteOnce"}},
        "PersistentVolumeClaim",
        "x-store",
        "spec.accessModes.0",
        "ReadWriteOnce",
    ),
    (
        {"storage": {"claim": "mine"}},
        "Deployment",
        "x-file-server",
        "spec.template.spec.volumes.0.persistentVolumeClaim.claimName",
        "mine",
    ),
    (
        {"file_server": {"memory": "2Gi"}},
        "Deployment",
        "x-file-server",
        "spec.template.spec.containers.0.resources.limits.memory",
        "2Gi",
    ),
    (
        {"transfer": {"storage": "5Gi"}},
        "PersistentVolumeClaim",
        "x-transfer-builds",
        "spec.resources.requests.storage",
        "5Gi",
    ),
    ({"predictor": {"replicas": 4}}, "Deployment", "x-predictor", "spec.replicas", 4),
    ({"predictor": {"service": "NodePort"}}, "Service", "x-predictor", "spec.type", "NodePort"),
    (
        {"predictor": {"tls_secret": "crt"}},
        "Deployment",
        "x-predictor",
        "spec.template.spec.volumes.0.secret.secretName",
        "crt",
    ),
    (
        {"predictor": {"tls_secret": "crt"}},
        "Deployment",
        "x-predictor",
        "spec.template.spec.containers.0.readinessProbe.httpGet.scheme",
        "HTTPS",
    ),
]


def at(body: dict[str, Any], path: str) -> Any:
    found: Any = body
    for key in path.split("."):
        found = found[int(key)] if isinstance(found, list) else found[key.replace("~", ".")]
    return found


@pytest.mark.parametrize("number", range(len(CHANGES)), ids=lambda number: str(CHANGES[number][0]))
def test_a_value_changes_the_object_that_the_cluster_has(cluster_client: ClusterClient, number: int) -> None:
    given, kind, name, path, expected = CHANGES[number]

    def read_back(suite: str, values: dict[str, Any]) -> Any:
        own = name.replace("x-", f"{suite}-")
        bodies = [
            body
            for body in objects_of({"name": suite, **values}, OLD)
            if (body["kind"], body["metadata"]["name"]) == (kind, own)
        ]
        for body in bodies:
            cluster_client.apply(body, manager=MANAGER)
        try:
            return at(cluster_client.get(kind, NAMESPACE, own), path) if bodies else None
        except KeyError:
            return None

    # A suite for each value: fields of some objects cannot be changed any more.
    assert read_back("as-it-is", {}) != expected
    assert read_back(f"changed-{number}", given) == expected


PLANS: list[tuple[dict[str, Any], str, Any]] = [
    ({"training": {"pservers": 5}}, "job.cluster.pservers", 5),
    ({"training": {"trainers": 7}}, "job.cluster.trainers", 7),
    ({"training": {"trainer": {"memory": "9Gi"}}}, "job.cluster.kubernetes.trainer.memory", "9Gi"),
    ({"training": {"pserver": {"cpu": 4}}}, "job.cluster.kubernetes.pserver.cpu", "4"),
    ({"training": {"queue": "q"}}, "job.cluster.kubernetes.queue", "q"),
    ({"training": {"kueue_queue": "q"}}, "job.cluster.kubernetes.kueue_queue", "q"),
    ({"model": "deepfm"}, "job.model.name", "deepfm"),
    ({"data": {"rows": 5000}}, "demo_rows", 5000),
    ({"data": {"start": "20240101/00", "end": "20240101/01"}}, "end", "20240101/01"),
    ({"data": {"source": "paths", "train": ["hdfs://n/a"]}}, "train", ["hdfs://n/a"]),
]


@pytest.mark.parametrize(("given", "path", "expected"), PLANS)
def test_a_value_changes_the_plan_that_the_training_pod_is_given(
    cluster_client: ClusterClient, given: dict[str, Any], path: str, expected: Any
) -> None:
    (body,) = [
        body
        for body in objects_of({"name": "x", **given}, OLD)
        if body["kind"] == "ConfigMap" and body["metadata"]["name"] == "x-training"
    ]
    cluster_client.apply(body, manager=MANAGER)
    plan = yaml.safe_load(cluster_client.get("ConfigMap", NAMESPACE, "x-training")["data"]["training.yaml"])
    assert at(plan, path) == expected


@pytest.mark.parametrize(
    ("given", "key", "expected"),
    [
        ({"transfer": {"interval": 7.0}}, "interval", 7.0),
        ({"transfer": {"wait": 9.0}}, "wait", 9.0),
        ({"cube": {"keep": 5}}, "keep", 5),
        ({"served_model": "other"}, "dict_name", "other"),
    ],
)
def test_a_value_changes_the_file_that_transfer_is_given(given: dict[str, Any], key: str, expected: Any) -> None:
    (body,) = [one for one in objects_of(given) if one["kind"] == "ConfigMap" and "transfer.yaml" in one["data"]]
    assert yaml.safe_load(body["data"]["transfer.yaml"])[key] == expected


@pytest.mark.parametrize(
    ("given", "part", "word"),
    [
        ({"predictor": {"workers": 5}}, "predictor", "5"),
        ({"cube": {"in_memory": True}}, "cube-0", "--memory"),
        ({"cube": {"keep": 8}}, "cube-0", "8"),
        ({"served_model": "other"}, "predictor", "other"),
    ],
)
def test_a_value_changes_the_command_of_a_container(given: dict[str, Any], part: str, word: str) -> None:
    def command(values: dict[str, Any]) -> list[str]:
        bodies = [
            body
            for body in objects_of(values)
            if body["kind"] in ("Deployment", "StatefulSet") and body["metadata"]["name"] == f"ctr-{part}"
        ]
        return list(bodies[0]["spec"]["template"]["spec"]["containers"][0]["command"])

    assert word in command(given)
    assert word not in command({})


def test_another_plan_is_another_job_and_the_same_plan_the_same() -> None:
    def name(given: dict[str, Any]) -> str:
        return next(str(body["metadata"]["name"]) for body in objects_of(given) if body["kind"] == "Job")

    assert name({}) == name({})
    assert name({}) != name({"data": {"rows": 5000}})
