"""Gangs: no pod is made before the scheduler admits them all. Volcano cannot be had here, so the tests play it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from support.kubernetes import jobs_client
from support.kubernetes.api_server import TestCluster
from support.kubernetes.jobs_client import JobsClient, paddle_job, role
from support.kubernetes.operator_process import operator_process
from support.ports import port_range

HEALTH = f"127.0.0.1:{port_range(1)}"
VOLCANO = Path(jobs_client.__file__).with_name("volcano.yaml")


@pytest.fixture(scope="module")
def gangs(cluster: TestCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JobsClient]:
    log = tmp_path_factory.mktemp("volcano-operator") / "operator.log"
    with JobsClient(cluster, "gangs") as client:
        client.kubectl("apply", "-f", str(VOLCANO))
        client.kubectl("wait", "--for=condition=Established", "crd/podgroups.scheduling.volcano.sh")
        options = ("--namespace", "gangs", "--scheduling", "volcano", "--retry-delay", "0", "--health", HEALTH)
        with operator_process(cluster, log, *options) as process:
            client.operator = process
            yield client


def test_no_pod_is_made_before_the_gang_is_admitted(gangs: JobsClient) -> None:
    resources = {
        "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"cpu": 2, "example.com/gpu": 1}}
    }
    policy = {"queue": "ads", "priorityClass": "high"}
    gangs.create(paddle_job("gang", schedulingPolicy=policy, ps=role(1, container=resources), worker=role(2)))
    group = gangs.wait(lambda: gangs.get("podgroups", "gang"), "a PodGroup")
    assert group["spec"] == {
        "minMember": 3,
        "queue": "ads",
        "priorityClassName": "high",
        "minResources": {"cpu": "500m", "memory": "1Gi", "example.com/gpu": "1"},
    }
    waits = "waiting for Volcano to admit 3 pods at once with cpu 500m, example.com/gpu 1, memory 1Gi in queue 'ads'"
    gangs.wait(lambda: gangs.status("gang").get("message") == waits, "a sentence that says what it waits for")
    said = "0/3 tasks in gang unschedulable: not enough gpu"
    gangs.group_status(
        "gang", phase="Pending", conditions=[{"type": "Unschedulable", "status": "True", "message": said}]
    )
    gangs.wait(lambda: gangs.status("gang")["message"] == f"{waits}; it says: {said}", "Volcano's own words")
    condition = next(one for one in gangs.status("gang")["conditions"] if one["type"] == "Admitted")
    assert (condition["status"], condition["reason"]) == ("False", "WaitsForGang")
    assert gangs.pods("gang") == {}
    gangs.group_status("gang", phase="Inqueue", conditions=[])
    names = ("ps-0", "worker-0", "worker-1")
    pod = gangs.until_pods("gang", *names)["gang-worker-0"]
    assert pod["spec"]["schedulerName"] == "volcano"
    annotations = pod["metadata"]["annotations"]
    assert annotations["scheduling.k8s.io/group-name"] == "gang"
    assert annotations["volcano.sh/task-spec"] == "worker"
    assert annotations["volcano.sh/queue-name"] == "ads"
    gangs.run_pods("gang", *names)
    gangs.until("gang", "Running")
    gangs.succeed_pods("gang", *names)
    gangs.until("gang", "Completed")
    gangs.wait(lambda: gangs.get("podgroups", "gang") is None, "the end of the PodGroup")


def test_a_job_that_names_another_scheduler_is_no_gang(gangs: JobsClient) -> None:
    gangs.create(paddle_job("other", worker=role(1, pod={"schedulerName": "mine"})))
    assert gangs.until_pods("other", "worker-0")["other-worker-0"]["spec"]["schedulerName"] == "mine"
    assert gangs.get("podgroups", "other") is None


def test_pods_of_a_job_in_a_queue_of_kueue_are_one_group_of_it(gangs: JobsClient) -> None:
    body = paddle_job("queued", ps=role(1), worker=role(2))
    body["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "team-a"}
    gangs.create(body)
    for pod in gangs.until_pods("queued", "ps-0", "worker-0", "worker-1").values():
        labels = pod["metadata"]["labels"]
        assert labels["kueue.x-k8s.io/queue-name"] == "team-a"
        assert labels["kueue.x-k8s.io/pod-group-name"] == "queued"
        assert pod["metadata"]["annotations"]["kueue.x-k8s.io/pod-group-total-count"] == "3"
    assert gangs.get("podgroups", "queued") is None


def test_the_operator_says_that_it_is_alive(gangs: JobsClient) -> None:
    def answers() -> bool:
        try:
            return httpx.get(f"http://{HEALTH}/healthz", trust_env=False).status_code == 200
        except httpx.ConnectError:
            return False

    gangs.wait(answers, "an answer")
