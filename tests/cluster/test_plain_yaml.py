"""The older way, without an operator: a ReplicaSet of servers and a Job of trainers find each other and train."""

from __future__ import annotations

import json
import secrets
from typing import Any

import pytest
import yaml

from support.eventually import eventually
from support.kubernetes.full_cluster import FullCluster
from support.kubernetes.jobs_client import JobsClient
from support.kubernetes.pods.pod_access import in_pod
from support.kubernetes.pods.shipped_examples import PLAIN, assert_same, make_smaller, smaller

pytestmark = [pytest.mark.cluster, pytest.mark.heavy]


def test_servers_and_trainers_of_plain_yaml_train(
    node: FullCluster, jobs: JobsClient, wide_and_deep_here: dict[str, Any]
) -> None:
    settings_map, servers, trainers = (_document(node, name) for name in ("job", "pserver", "trainer"))
    settings_map["data"]["job.yaml"] = smaller(settings_map["data"]["job.yaml"], strategy="sync")
    for body in (servers, trainers):
        make_smaller(body["spec"]["template"]["spec"])
    token = f"--from-literal=token={secrets.token_hex(32)}"
    text = yaml.safe_dump_all([settings_map, servers, trainers])
    jobs.kubectl("create", "secret", "generic", "clickline-token", token)
    jobs.kubectl("apply", "-f", str(PLAIN / "rbac.yaml"))
    try:
        jobs.kubectl("apply", "-f", "-", given=text)

        def ended() -> dict[str, Any] | None:
            status = _of(jobs, "job", trainers)["status"]
            return status if status.get("succeeded") == 2 or status.get("failed") else None

        status = eventually(ended, what="the end of the trainers")
        assert status.get("succeeded") == 2, f"{status}\n{_logs(jobs)}"
        servers_of_job = _of(jobs, "pods", "-l", "paddle-job-pserver=fluid-ctr")["items"]
        # Servers of a ReplicaSet stay, so that they can be asked.
        texts = [
            in_pod(jobs, pod["metadata"]["name"], "cat", "/runs/fluid-ctr/result.json", check=False)
            for pod in servers_of_job
        ]
        (result,) = [json.loads(text) for text in texts if text]  # the run is in the pod of server 0
        assert_same(result, wide_and_deep_here, bits=node.is_here)
    finally:
        jobs.kubectl("delete", "-f", "-", given=text)
        jobs.kubectl("delete", "secret", "clickline-token")


def _document(cluster: FullCluster, name: str) -> dict[str, Any]:
    return dict(yaml.safe_load(cluster.with_image((PLAIN / f"{name}.yaml").read_text(encoding="utf-8"))))


def _of(jobs: JobsClient, kind: str, *which: Any) -> dict[str, Any]:
    words = [one if isinstance(one, str) else one["metadata"]["name"] for one in which]
    return dict(yaml.safe_load(jobs.kubectl("get", kind, *words, "-o", "json").stdout))


def _logs(jobs: JobsClient) -> str:
    labels = ("paddle-job=fluid-ctr", "paddle-job-pserver=fluid-ctr")
    return "\n".join(jobs.kubectl("logs", "--tail=30", "-l", label, check=False).stdout for label in labels)
