"""Pods that fail, are lost, or come and go by a changed number of replicas. The tests play the kubelet."""

from __future__ import annotations

from clickline.operator.job.paddle_job import PaddleJob
from clickline.operator.objects.observed_pod import ObservedPod
from clickline.operator.objects.pod_manifests import pod_manifest
from support.kubernetes.jobs_client import JobsClient, paddle_job, role

FOUR = ("ps-0", "ps-1", "worker-0", "worker-1")


def started(jobs: JobsClient, name: str, *names: str, **spec: object) -> dict[str, str]:
    """A job whose pods run; their uids by name."""
    jobs.create(paddle_job(name, **spec))
    jobs.until_pods(name, *names)
    jobs.run_pods(name, *names)
    jobs.until(name, "Running")
    return uids(jobs, name)


def uids(jobs: JobsClient, name: str) -> dict[str, str]:
    return {pod.removeprefix(f"{name}-"): body["metadata"]["uid"] for pod, body in jobs.pods(name).items()}


def until_replaced(jobs: JobsClient, name: str, before: dict[str, str], *names: str) -> None:
    """Wait until exactly these pods are other ones."""

    def replaced() -> bool:
        now = uids(jobs, name)
        return now.keys() == before.keys() and {pod for pod in now if now[pod] != before[pod]} == set(names)

    jobs.wait(replaced, f"other pods {names} of {name}")


def test_a_worker_that_failed_is_replaced_alone_and_with_fresh_endpoints(jobs: JobsClient) -> None:
    before = started(jobs, "worker-fails", *FOUR, ps=role(2), worker=role(2))
    jobs.fail_pod("worker-fails", "worker-1", exit_code=137, reason="OOMKilled")
    until_replaced(jobs, "worker-fails", before, "worker-1")
    status = jobs.until("worker-fails", "Restarting")
    failure = status["firstFailure"]
    assert (failure["pod"], failure["reason"], failure["exitCode"]) == ("worker-fails-worker-1", "OOMKilled", 137)
    assert "out of memory" in failure["message"]
    assert status["restarts"] == 1
    jobs.run_pods("worker-fails", "worker-1")
    jobs.until("worker-fails", "Running")
    given = jobs.environment(jobs.pods("worker-fails")["worker-fails-worker-1"])
    assert given["POD_IP"] in given["PADDLE_TRAINERS"].split(",")
    jobs.succeed_pods("worker-fails", "worker-0", "worker-1", "ps-0", "ps-1")
    jobs.until("worker-fails", "Completed")


def test_all_pods_are_replaced_if_a_server_whose_ip_they_know_fails_or_is_deleted(jobs: JobsClient) -> None:
    before = started(jobs, "server-fails", *FOUR, ps=role(2), worker=role(2))
    jobs.fail_pod("server-fails", "ps-0", exit_code=139)
    until_replaced(jobs, "server-fails", before, *FOUR)
    assert "SIGSEGV" in jobs.status("server-fails")["firstFailure"]["message"]
    jobs.run_pods("server-fails", *FOUR)
    jobs.until("server-fails", "Running")
    before = uids(jobs, "server-fails")
    jobs.delete("pods", "server-fails-ps-1")
    until_replaced(jobs, "server-fails", before, *FOUR)
    jobs.run_pods("server-fails", *FOUR)
    status = jobs.until("server-fails", "Running")
    assert status["restarts"] == 1  # to be deleted is not a failure


def test_a_server_behind_a_service_is_replaced_alone(jobs: JobsClient) -> None:
    before = started(jobs, "server-named", *FOUR, intranet="Service", ps=role(2), worker=role(2))
    jobs.fail_pod("server-named", "ps-0", evicted=True)
    until_replaced(jobs, "server-named", before, "ps-0")
    assert jobs.status("server-named")["firstFailure"]["reason"] == "Evicted"
    jobs.run_pods("server-named", "ps-0")
    jobs.until("server-named", "Running")
    before = uids(jobs, "server-named")
    jobs.delete("pods", "server-named-ps-0")
    until_replaced(jobs, "server-named", before, "ps-0")


def test_all_ranks_start_over_together_and_the_failure_counts_once(jobs: JobsClient) -> None:
    names = ("worker-0", "worker-1", "worker-2")
    before = started(jobs, "ranks-fail", *names, worker=role(3), backoffLimit=1)
    jobs.fail_pod("ranks-fail", "worker-1")
    until_replaced(jobs, "ranks-fail", before, *names)
    jobs.run_pods("ranks-fail", *names)
    assert jobs.until("ranks-fail", "Running")["restarts"] == 1
    jobs.fail_pod("ranks-fail", "worker-2", exit_code=134)
    status = jobs.until("ranks-fail", "Failed")
    assert status["worker"]["failed"] == 1
    assert status["message"].startswith("ranks-fail-worker-1 failed first, Error: container 'paddle': exit code 1")
    assert "2 failures of pods or containers, 1 are allowed" in status["message"]
    condition = next(one for one in status["conditions"] if one["type"] == "Failed")
    assert condition["reason"] == "BackoffLimitExceeded"
    assert uids(jobs, "ranks-fail").keys() == set(names)  # kept, to be looked at


def test_workers_join_and_leave_while_the_others_go_on(jobs: JobsClient) -> None:
    two = ("ps-0", "worker-0")
    before = started(jobs, "scaled", *two, ps=role(1), worker=role(1, requests=1, limits=3))
    jobs.patch("scaled", {"worker": {"replicas": 3}})
    jobs.until_pods("scaled", *two, "worker-1", "worker-2")
    assert jobs.until("scaled", "Scaling")["elastic"] == "DOING"
    jobs.run_pods("scaled", "worker-1", "worker-2")
    assert jobs.until("scaled", "Running")["elastic"] == "DONE"
    assert jobs.environment(jobs.pods("scaled")["scaled-worker-2"])["PADDLE_TRAINERS_NUM"] == "3"
    jobs.patch("scaled", {"worker": {"replicas": 9}})
    jobs.wait(
        lambda: any(
            c["type"] == "ReplicasLimited" and c["status"] == "True" for c in jobs.status("scaled")["conditions"]
        ),
        "a condition that says so",
    )
    assert set(uids(jobs, "scaled")) == {*two, "worker-1", "worker-2"}
    jobs.patch("scaled", {"worker": {"replicas": 0}})
    after = jobs.until_pods("scaled", *two)
    assert {name: after[f"scaled-{name}"]["metadata"]["uid"] for name in two} == before
    jobs.until("scaled", "Running")


def test_another_number_of_servers_or_ranks_starts_everything_over(jobs: JobsClient) -> None:
    before = started(jobs, "reshard", "ps-0", "worker-0", intranet="Service", ps=role(1), worker=role(1))
    jobs.patch("reshard", {"ps": {"replicas": 2}})
    after = jobs.until_pods("reshard", "ps-0", "ps-1", "worker-0")
    jobs.wait(lambda: not set(uids(jobs, "reshard").values()) & set(before.values()), "other pods")
    after = jobs.until_pods("reshard", "ps-0", "ps-1", "worker-0")
    servers = jobs.environment(after["reshard-worker-0"])["PADDLE_PSERVERS_IP_PORT_LIST"]
    assert servers == "reshard-ps-0:36000,reshard-ps-1:36000"
    condition = next(one for one in jobs.status("reshard")["conditions"] if one["type"] == "Resharded")
    assert "ps from 1 to 2" in condition["message"]


def test_a_pod_that_somebody_else_has_made_is_not_taken_for_the_jobs(jobs: JobsClient) -> None:
    stranger = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "taken-worker-0"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    jobs.kubectl("create", "-f", "-", given=stranger)
    jobs.create(paddle_job("taken", worker=role(1)))
    told = "there is a Pod 'taken-worker-0' that does not belong to this job"
    jobs.wait(lambda: any(told in message for _, message in jobs.events("taken")), "an event that says so")
    jobs.delete("pods", "taken-worker-0")
    jobs.until_pods("taken", "worker-0")


def failed_pod(log: str) -> dict[str, object]:
    terminated = {"exitCode": 6, "reason": "Error", "message": log}
    states = [{"name": "paddle", "state": {"terminated": terminated}}]
    return {
        "metadata": {"name": "job-ps-0", "uid": "u"},
        "status": {"phase": "Failed", "containerStatuses": states},
    }


def test_a_failed_pod_is_quoted_with_the_end_of_its_log() -> None:
    log = "starting\n" * 200 + "error: s3://bucket/runs: no credentials\n"
    message = ObservedPod.from_object(failed_pod(log)).message
    assert message.startswith("container 'paddle': exit code 6")
    assert message.endswith("error: s3://bucket/runs: no credentials")
    assert len(message) <= 1000


def test_the_end_of_the_log_is_kept_unless_the_template_says_otherwise() -> None:
    body = paddle_job("job", worker=role(1), ps=role(1, container={"terminationMessagePolicy": "File"}))
    body["metadata"] |= {"namespace": "n", "uid": "u", "generation": 1}
    job = PaddleJob.from_object(body)
    policies = {
        name: pod_manifest(job, name, 0, revision=0)["spec"]["containers"][0]["terminationMessagePolicy"]
        for name in ("worker", "ps")
    }
    assert policies == {"worker": "FallbackToLogsOnError", "ps": "File"}
