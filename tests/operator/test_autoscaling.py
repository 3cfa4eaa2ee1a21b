"""The number of workers by policy: decisions from what runs say, and a run to which a worker is really added."""

from __future__ import annotations

import json
import urllib.request
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from clickline.operator.job.job_status import AutoscalingStatus
from clickline.operator.job.paddle_job import PaddleJob
from clickline.operator.reconcile.autoscaling import CONDITION, Measured, decide, note_autoscaling
from clickline.operator.reconcile.run_report import Pieces, RunReport
from support.clusters import settings_for
from support.eventually import eventually
from support.kubernetes.jobs_client import JobsClient, paddle_job, role
from support.kubernetes.process_kubelet import ProcessKubelet
from support.processes import write_job

START = datetime(2026, 1, 1, tzinfo=UTC)


class Policy:
    """A job with a policy, whose decisions are carried out at once; time passes when it is told to."""

    def __init__(self, *, replicas: int = 2, least: int | None = 1, most: int | None = 8, **policy: Any) -> None:
        worker = role(replicas, autoscaling=policy)
        worker |= {} if least is None else {"requests": least}
        worker |= {} if most is None else {"limits": most}
        self.body: dict[str, Any] = paddle_job("j", ps=role(1), worker=worker)
        self.body["metadata"] |= {"namespace": "n", "uid": "u", "generation": 1}
        self.body["status"] = {"phase": "Running"}
        self.measured, self.now, self.rows = Measured(), START, 0

    @property
    def job(self) -> PaddleJob:
        return PaddleJob.from_object(self.body)

    def told(self, seconds: float = 0.0, **report: Any) -> int:
        """So many workers are wanted after so many seconds and this report."""
        self.now += timedelta(seconds=seconds)
        values = {"phase": "training", "epoch": 1, "epochs": 1, "step": 1, "rows": self.rows, **report}
        self.state = decide(self.job, RunReport(**values), self.measured, now=self.now)
        self.body["status"]["autoscaling"] = self.state.to_object()
        return self.job.spec.replicas()["worker"]

    def trained(self, seconds: float, *, rate: float) -> int:
        """The same after a time in which rows were trained at a rate."""
        self.told()
        self.rows += round(seconds * rate)
        return self.told(seconds)


def pieces(left: int, *, active: int = 0, done: int = 0) -> dict[str, Pieces]:
    return {"pieces": Pieces(done=done, active=active, left=left)}


@pytest.mark.parametrize(("left", "workers"), [(8, 2), (9, 3), (16, 4), (32, 8), (1000, 8)])
def test_workers_are_added_for_the_pieces_that_wait_up_to_the_limit(left: int, workers: int) -> None:
    assert Policy(metric="backlog", target=4).told(**pieces(left)) == workers


def test_a_worker_that_has_a_piece_stays_whichever_it_is() -> None:
    policy = Policy(replicas=4, target=4, stabilizationSeconds=0)
    assert policy.told(pieces=Pieces(active=1, holders=("trainer.2",))) == 3
    assert policy.told(pieces=Pieces(active=1, holders=("trainer.0",))) == 1


def test_epochs_to_come_are_a_backlog_too() -> None:
    assert Policy(target=10).told(**pieces(1, done=29), epoch=2, epochs=4) == 7


def test_workers_go_when_fewer_have_done_for_a_while_and_nobody_who_is_busy() -> None:
    policy = Policy(replicas=6, target=4, stabilizationSeconds=60)
    assert policy.told(**pieces(5, active=3)) == 6
    assert policy.told(59, **pieces(5, active=3)) == 6
    assert policy.told(0, **pieces(24)) == 6  # which interrupts it
    assert policy.told(1, **pieces(5, active=3)) == 6
    assert policy.told(60, **pieces(5, active=3)) == 3
    assert policy.told(0, **pieces(0, active=0)) == 3
    assert policy.told(60, **pieces(0, active=0)) == 1
    assert "0 pieces wait, 4 for each worker are wanted" in policy.state.message


def test_two_changes_have_a_pause_between_them() -> None:
    policy = Policy(target=1, stabilizationSeconds=30)
    assert policy.told(**pieces(3)) == 3
    assert policy.told(29, **pieces(7)) == 3
    assert policy.told(1, **pieces(7)) == 7


def test_a_policy_stays_between_requests_and_limits() -> None:
    policy = Policy(replicas=4, least=3, most=5, target=1, stabilizationSeconds=0)
    assert policy.told(**pieces(100)) == 5
    assert policy.told(**pieces(0)) == 3
    policy.body["spec"]["worker"]["limits"] = 2
    policy.body["spec"]["worker"]["requests"] = 1
    assert policy.job.spec.replicas()["worker"] == 2


def test_a_worker_stays_if_the_run_is_faster_by_it_and_else_goes_again() -> None:
    policy = Policy(metric="throughput", replicas=1, most=8, minGainPercent=10, stabilizationSeconds=60)
    assert policy.trained(30, rate=1000) == 1  # not yet
    assert policy.trained(30, rate=1000) == 2
    assert policy.trained(60, rate=1900) == 3
    assert policy.trained(60, rate=2000) == 2
    assert policy.state.settled
    assert policy.state.message.endswith("2,000 rows/s with 3 workers, +5 % to 2: less than 10 %, so it is taken back")
    assert policy.trained(1000, rate=5000) == 2
    policy.body["metadata"]["generation"] = 2  # somebody has changed the job: it is tried again
    assert policy.trained(60, rate=2000) == 3


def test_throughput_is_measured_only_while_all_workers_train() -> None:
    policy = Policy(metric="throughput", replicas=1, stabilizationSeconds=60)
    policy.told()
    assert policy.told(59, phase="evaluating") == 1
    assert policy.told(59) == 1
    policy.body["status"]["phase"] = "Scaling"
    assert policy.told(600) == 1


def test_nothing_is_tried_beyond_the_limit() -> None:
    policy = Policy(metric="throughput", replicas=2, most=2, stabilizationSeconds=10)
    assert policy.trained(10, rate=100) == 2
    assert (policy.state.settled, policy.state.message) == (True, "100 rows/s with 2 workers; there may not be more")


@pytest.mark.parametrize(
    ("servers", "most", "reason"), [(True, 8, "Active"), (False, 8, "NoServers"), (True, None, "NoLimits")]
)
def test_a_condition_says_whether_the_policy_has_an_effect(servers: bool, most: int | None, reason: str) -> None:
    policy = Policy(most=most)
    job = policy.job if servers else replace(policy.job, spec=policy.job.spec.model_copy(update={"ps": None}))
    condition = note_autoscaling(job, job.status, now=START).condition(CONDITION)
    assert condition is not None
    assert (condition.status, condition.reason) == ("True" if reason == "Active" else "False", reason)


def test_a_job_whose_policy_is_removed_has_as_many_workers_as_it_says() -> None:
    policy = Policy(replicas=2, target=1)
    assert policy.told(**pieces(5)) == 5
    del policy.body["spec"]["worker"]["autoscaling"]
    assert policy.job.spec.replicas()["worker"] == 2
    assert note_autoscaling(policy.job, policy.job.status, now=START).autoscaling is None


def test_a_report_without_pieces_decides_nothing() -> None:
    policy = Policy(target=1)
    assert policy.told() == 2
    assert policy.state == AutoscalingStatus(desired_replicas=2, observed_generation=1)


@pytest.mark.heavy
def test_a_worker_is_added_to_a_run_with_a_backlog_and_trains(
    jobs: JobsClient, criteo: dict[str, str], tmp_path: Path
) -> None:
    settings = settings_for(criteo, tmp_path, "grown", cluster={"pservers": 1, "trainers": 1}, train={"epochs": 10_000})
    file = str(write_job(tmp_path / "job.yaml", settings))
    servers, workers = {"args": ["pserver", file]}, {"args": ["trainer", file]}
    policy = {"metric": "backlog", "target": 1, "stabilizationSeconds": 1}
    worker = role(1, container=workers, requests=1, limits=2, autoscaling=policy)
    jobs.create(paddle_job("grown", ps=role(1, container=servers), worker=worker))
    kubelet = ProcessKubelet(jobs, "grown", tmp_path)
    try:

        def trainers() -> list[str]:
            """That train, as the coordinator in the pod of the server says."""
            address = jobs.pods("grown")["grown-ps-0"]["status"]["podIP"]
            with urllib.request.urlopen(f"http://{address}:9101/status", timeout=10) as answer:
                members = json.load(answer)["members"]
            return [member["name"] for member in members if member["role"] == "trainer" and member.get("rows")]

        names = {"grown-ps-0", "grown-worker-0", "grown-worker-1"}
        eventually(lambda: set(jobs.pods("grown")) == names, what="a second worker", doing=kubelet.step)
        eventually(lambda: len(trainers()) == 2, what="rows trained by both", doing=kubelet.step)
        status = eventually(lambda: jobs.until("grown", "Running"), what="all pods", doing=kubelet.step)
    finally:
        kubelet.stop()
        jobs.delete("paddlejobs", "grown")
    assert status["autoscaling"]["desiredReplicas"] == 2
    assert status["replicas"] == {"ps": 1, "worker": 2}
    condition = next(one for one in status["conditions"] if one["type"] == CONDITION)
    assert (condition["status"], condition["reason"]) == ("True", "Active")
    scaled = [message for reason, message in jobs.events("grown") if reason == "Scaled"]
    assert len(scaled) == 1
    assert scaled[0].startswith("worker from 1 to 2 by the autoscaling policy: ")
