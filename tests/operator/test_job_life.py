"""Jobs through the real API: from apply to the end, and what becomes of their pods. The tests play the kubelet."""

from __future__ import annotations

from typing import Any

import pytest

from support.kubernetes.jobs_client import JobsClient, paddle_job, role

FOUR = ("ps-0", "ps-1", "worker-0", "worker-1")
RESNET = """
apiVersion: batch.paddlepaddle.org/v1
kind: PaddleJob
metadata:
  name: resnet
spec:
  cleanPodPolicy: Never
  worker:
    replicas: 2
    template:
      spec:
        containers:
          - name: paddle
            image: registry.baidubce.com/paddle-operator/demo-resnet:v1
            command:
            - python
            args:
            - "-m"
            - "paddle.distributed.launch"
            - "train_fleet.py"
            volumeMounts:
            - mountPath: /dev/shm
              name: dshm
            resources:
              limits:
                nvidia.com/gpu: 1
        volumes:
        - name: dshm
          emptyDir:
            medium: Memory
"""


def test_a_job_with_servers_starts_runs_and_completes(jobs: JobsClient) -> None:
    jobs.create(paddle_job("life", ps=role(2), worker=role(2)))
    pods = jobs.until_pods("life", *FOUR)
    made = {name: int(pod["metadata"]["resourceVersion"]) for name, pod in pods.items()}
    assert max(made["life-ps-0"], made["life-ps-1"]) < min(made["life-worker-0"], made["life-worker-1"])
    assert jobs.until("life", "Pending")["mode"] == "PS"
    jobs.run_pods("life", *FOUR, ready=False)
    jobs.until("life", "Starting")
    jobs.run_pods("life", *FOUR)
    status = jobs.until("life", "Running")
    assert (status["ps"]["running"], status["worker"]["running"]) == (2, 2)
    assert [ref["name"] for ref in status["worker"]["refs"]] == ["life-worker-0", "life-worker-1"]
    assert status["startTime"]
    assert status["observedGeneration"] == 1
    table = jobs.kubectl("get", "pdj", "life").stdout.splitlines()
    assert table[0].split() == ["NAME", "STATUS", "MODE", "AGE"]
    assert table[1].split()[:3] == ["life", "Running", "PS"]
    jobs.succeed_pods("life", "worker-0", "worker-1")
    jobs.until("life", "Completing")
    jobs.succeed_pods("life", "ps-0", "ps-1")
    status = jobs.until("life", "Completed")
    assert (status["ps"]["succeeded"], status["worker"]["succeeded"]) == (2, 2)
    assert status["completionTime"] >= status["startTime"]
    conditions = {one["type"]: one["status"] for one in status["conditions"]}
    assert conditions == {"Running": "False", "Complete": "True", "Completing": "False"}
    jobs.until_pods("life")  # as cleanPodPolicy says that is not there
    reasons = jobs.wait(lambda: [r for r, _ in jobs.events("life")] if len(jobs.events("life")) > 4 else None, "events")
    assert {"Created", "Running", "Completed", "Deleted"} <= set(reasons)


def test_everything_that_is_made_belongs_to_the_job(jobs: JobsClient) -> None:
    made = jobs.create(paddle_job("owner", intranet="Service", ps=role(1), worker=role(1)))
    jobs.until_pods("owner", "ps-0", "worker-0")
    jobs.wait(lambda: jobs.get("configmaps", "owner"), "the endpoints")
    for resource in ("pods", "services", "configmaps", "secrets"):
        objects = jobs.objects(resource, "owner")
        assert objects, resource
        for one in objects.values():
            (reference,) = one["metadata"]["ownerReferences"]
            assert reference["uid"] == made["metadata"]["uid"]
            assert reference["controller"]
    jobs.delete("paddlejobs", "owner")
    jobs.wait(lambda: jobs.get("paddlejobs", "owner") is None, "the end of the job")
    # Collected by the controller manager, which is not here; what matters is that nothing is made again.
    jobs.delete("pods", "owner-ps-0")
    jobs.create(paddle_job("after", worker=role(1)))
    jobs.until_pods("after", "worker-0")
    assert jobs.get("pods", "owner-ps-0") is None


def test_the_resnet_example_of_paddle_operator_runs_unchanged(jobs: JobsClient) -> None:
    jobs.kubectl("create", "-f", "-", given=RESNET)
    pods = jobs.until_pods("resnet", "worker-0", "worker-1")
    container = pods["resnet-worker-0"]["spec"]["containers"][0]
    assert container["args"] == ["-m", "paddle.distributed.launch", "train_fleet.py"]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": "1"}
    assert pods["resnet-worker-0"]["spec"]["volumes"][0]["emptyDir"] == {"medium": "Memory"}
    jobs.run_pods("resnet", "worker-0", "worker-1")
    assert jobs.until("resnet", "Running")["mode"] == "Collective"
    jobs.succeed_pods("resnet", "worker-0", "worker-1")
    jobs.until("resnet", "Completed")
    assert len(jobs.pods("resnet")) == 2


@pytest.mark.parametrize("outcome", ["Completed", "Failed"])
def test_pods_of_a_finished_job_go_or_stay_as_the_policy_says(jobs: JobsClient, outcome: str) -> None:
    kept = {  # by policy: of a completed job, of a failed one
        "Always": (False, False),
        "Never": (True, True),
        "OnFailure": (True, False),
        "OnCompletion": (False, True),
        "": (False, True),
    }
    names = {policy: f"clean-{outcome.lower()}-{policy.lower() or 'default'}" for policy in kept}
    for policy, name in names.items():
        given = {"cleanPodPolicy": policy} if policy else {}
        jobs.create(paddle_job(name, backoffLimit=0, intranet="Service", worker=role(1), **given))
    for name in names.values():
        jobs.until_pods(name, "worker-0")
        if outcome == "Completed":
            jobs.succeed_pods(name, "worker-0")
        else:
            jobs.fail_pod(name, "worker-0")
    for name in names.values():
        jobs.until(name, outcome)
    gone = [name for policy, name in names.items() if not kept[policy][outcome == "Failed"]]
    for name in gone:
        jobs.until_pods(name)
        assert jobs.objects("services", name) == {}
    assert {name for name in names.values() if jobs.pods(name)} == set(names.values()) - set(gone)


def test_a_finished_job_is_deleted_after_its_time(jobs: JobsClient) -> None:
    jobs.create(paddle_job("brief", ttlSecondsAfterFinished=0, worker=role(1)))
    jobs.until_pods("brief", "worker-0")
    jobs.succeed_pods("brief", "worker-0")
    jobs.wait(lambda: jobs.get("paddlejobs", "brief") is None, "the end of the job")


def test_a_job_that_takes_too_long_fails_and_its_pods_are_stopped(jobs: JobsClient) -> None:
    jobs.create(paddle_job("late", activeDeadlineSeconds=1, cleanPodPolicy="Never", worker=role(2)))
    status = jobs.until("late", "Failed")
    assert status["message"] == "the job was not finished 1 seconds after it was accepted"
    jobs.until_pods("late")


def test_a_suspended_job_has_no_pods_until_it_is_resumed(jobs: JobsClient) -> None:
    jobs.create(paddle_job("pause", suspend=True, worker=role(2)))
    jobs.until("pause", "Suspended")
    assert jobs.pods("pause") == {}
    jobs.patch("pause", {"suspend": False})
    first = jobs.until_pods("pause", "worker-0", "worker-1")
    jobs.run_pods("pause", "worker-0", "worker-1")
    jobs.until("pause", "Running")
    jobs.patch("pause", {"suspend": True})
    jobs.until("pause", "Suspended")
    jobs.until_pods("pause")
    jobs.patch("pause", {"suspend": False})
    second = jobs.until_pods("pause", "worker-0", "worker-1")
    assert first["pause-worker-0"]["metadata"]["uid"] != second["pause-worker-0"]["metadata"]["uid"]
    jobs.run_pods("pause", "worker-0", "worker-1")
    status = jobs.until("pause", "Running")
    suspended: dict[str, Any] = next(one for one in status["conditions"] if one["type"] == "Suspended")
    assert suspended["status"] == "False"
    # A resumed pod waits for the endpoints of its own set of pods, and not for those of pods that are gone.
    environment = jobs.environment(jobs.pods("pause")["pause-worker-1"])
    assert environment["POD_IP"] in environment["PADDLE_TRAINERS"].split(",")


def test_many_jobs_at_once_all_get_their_pods(jobs: JobsClient) -> None:
    names = [f"many-{number}" for number in range(100)]
    for name in names:
        jobs.create(paddle_job(name, ps=role(1), worker=role(1)))
    wanted = {f"{name}-{pod}" for name in names for pod in ("ps-0", "worker-0")}
    jobs.wait(lambda: wanted <= set(jobs.names("pods")), "all pods of all jobs")


def test_a_job_that_is_made_again_does_not_use_what_its_predecessor_left(jobs: JobsClient) -> None:
    jobs.create(paddle_job("again", worker=role(1)))
    jobs.until_pods("again", "worker-0")
    jobs.run_pods("again", "worker-0")
    jobs.until("again", "Running")
    left = {kind: list(jobs.objects(kind, "again")) for kind in ("pods", "configmaps", "secrets")}
    jobs.delete("paddlejobs", "again")
    second = jobs.create(paddle_job("again", worker=role(1)))
    jobs.wait(lambda: any("does not belong" in message for _, message in jobs.events("again")), "a word about it")
    for kind, names in left.items():  # the part of the garbage collector, which is not here
        for name in names:
            jobs.delete(kind, name)

    def replaced() -> bool:
        pod = jobs.get("pods", "again-worker-0")
        return pod is not None and pod["metadata"]["ownerReferences"][0]["uid"] == second["metadata"]["uid"]

    jobs.wait(replaced, "a pod of the second job")
    jobs.run_pods("again", "worker-0")
    jobs.until("again", "Running")
    assert "CLICKLINE_TOKEN" in jobs.environment(jobs.pods("again")["again-worker-0"])


def test_a_job_that_paddle_operator_left_behind_can_be_deleted(jobs: JobsClient) -> None:
    body = paddle_job("inherited", worker=role(1))
    body["metadata"]["finalizers"] = ["finalizers.paddlepaddle.org"]
    jobs.create(body)
    jobs.until_pods("inherited", "worker-0")
    jobs.delete("paddlejobs", "inherited")
    jobs.wait(lambda: jobs.get("paddlejobs", "inherited") is None, "the end of the job")
