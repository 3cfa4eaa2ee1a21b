"""An operator that is killed between any two of its steps, and the next, which knows only what the API server has."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from clickline.files.failpoints import OPERATING
from support.eventually import eventually
from support.kubernetes.api_server import TestCluster
from support.kubernetes.jobs_client import JobsClient, PodGoneError, paddle_job, role
from support.kubernetes.operator_process import operator_process

NAMES = ("ps-0", "worker-0", "worker-1")
OPTIONS = ("--namespace", "killed", "--retry-delay", "0")


class Kubelet:
    """Has the pods of a job run, one of them fail once, all of them succeed; and lets the job expire."""

    def __init__(self, jobs: JobsClient) -> None:
        self._jobs = jobs
        self.failed: dict[str, str] = {}
        self.completed: dict[str, dict[str, Any]] = {}
        self.names: list[str] = []

    def step(self) -> None:
        for name in self.names:
            if self._jobs.get("paddlejobs", name) is not None:
                with suppress(PodGoneError):  # the operator may delete one at any time
                    self._step(name, self._jobs.status(name))

    def _step(self, name: str, status: dict[str, Any]) -> None:
        pods = self._jobs.pods(name)
        waiting = [pod for pod, body in pods.items() if body["status"]["phase"] == "Pending"]
        if waiting:
            self._jobs.run_pods(name, *(pod.removeprefix(f"{name}-") for pod in waiting))
        elif status.get("phase") == "Running" and name not in self.failed:
            self._jobs.fail_pod(name, "ps-0")
            self.failed[name] = pods[f"{name}-ps-0"]["metadata"]["uid"]
        elif status.get("phase") == "Running" and self._restarted(name, pods):
            self._jobs.succeed_pods(name, *NAMES)
        elif status.get("phase") == "Completed" and not pods and name not in self.completed:
            self.completed[name] = status
            self._jobs.patch(name, {"ttlSecondsAfterFinished": 0})

    def _restarted(self, name: str, pods: dict[str, dict[str, Any]]) -> bool:
        running = [pod["metadata"]["uid"] for pod in pods.values() if pod["status"]["phase"] == "Running"]
        return len(running) == len(NAMES) and self.failed[name] not in running


@contextmanager
def shown_on_failure(log: Path) -> Iterator[None]:
    try:
        yield
    except AssertionError as error:
        error.add_note(f"the operators' log ends with:\n{log.read_text()[-6000:]}")
        raise


@pytest.mark.heavy
def test_a_job_survives_an_operator_that_is_killed_at_any_step(cluster: TestCluster, tmp_path: Path) -> None:
    log = tmp_path / "operator.log"
    with JobsClient(cluster, "killed") as jobs, shown_on_failure(log):
        kubelet = Kubelet(jobs)
        for number, point in enumerate(OPERATING):
            # Each has a job of its own, and those that its predecessors left.
            name = f"killed-{number}"
            with operator_process(cluster, log, *OPTIONS, fail_at=point) as process:
                jobs.create(paddle_job(name, ps=role(1), worker=role(2)))
                kubelet.names.append(name)
                eventually(lambda process=process: process.poll() is not None, what=point, doing=kubelet.step)
                assert process.returncode == -signal.SIGKILL, log.read_text()
        with operator_process(cluster, log, *OPTIONS):
            eventually(
                lambda: all(jobs.get("paddlejobs", name) is None for name in kubelet.names),
                what="the end of all jobs",
                doing=kubelet.step,
            )
    assert set(kubelet.failed) == set(kubelet.names)
    for name, status in kubelet.completed.items():
        assert status["restarts"] == 1, name  # counted once, however often it was seen
        assert [failure["uid"] for failure in status["failures"]] == [kubelet.failed[name]]
        assert status["worker"]["succeeded"] == 2
