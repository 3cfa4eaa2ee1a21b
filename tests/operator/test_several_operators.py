"""Several operators, of which the one with the Lease works; and what an operator tells of itself."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from clickline.operator.controller.work_queue import JobKey, WorkQueue
from support.eventually import eventually
from support.kubernetes.api_server import TestCluster
from support.kubernetes.jobs_client import JobsClient, paddle_job, role
from support.kubernetes.operator_process import operator_process
from support.ports import port_range

LEASE = "paddle-controller-manager"
OPTIONS = ("--namespace", "several", "--lease", f"paddle-system/{LEASE}", "--lease-seconds", "3")


def samples(port: int) -> dict[tuple[str, ...], float]:
    """An operator's metrics by name and values of labels, in order of their names; none while it does not answer."""
    try:
        text = httpx.get(f"http://127.0.0.1:{port}/metrics", trust_env=False).text
    except httpx.HTTPError:
        return {}
    families = text_string_to_metric_families(text)
    return {
        (one.name, *(one.labels[label] for label in sorted(one.labels))): one.value
        for family in families
        for one in family.samples
    }


def leads(port: int) -> bool | None:
    value = samples(port).get(("clickline_operator_leader",))
    return None if value is None else value == 1


def holder(cluster: TestCluster) -> str:
    with JobsClient(cluster, "paddle-system") as system:
        lease = system.get("leases", LEASE)
    assert lease is not None
    return str(lease["spec"]["holderIdentity"])


@pytest.mark.heavy
def test_one_operator_works_and_another_takes_over_from_one_that_is_killed_or_stands_still(
    cluster: TestCluster, tmp_path: Path
) -> None:
    ports = [port_range(1) for _ in range(3)]
    logs = [tmp_path / f"operator-{number}.log" for number in range(3)]

    def operator(number: int, **options: Any) -> Any:
        return operator_process(cluster, logs[number], *OPTIONS, "--health", f"127.0.0.1:{ports[number]}", **options)

    def pods_of(name: str) -> int:
        return sum(reason == "Created" for reason, _ in jobs.events(name))

    with JobsClient(cluster, "several") as jobs, operator(0, gentle=False) as first:
        eventually(lambda: leads(ports[0]), what="a leader", process=first)
        with operator(1, gentle=False) as second:
            eventually(lambda: leads(ports[1]) is False, what="one that stands by", process=second)
            jobs.create(paddle_job("by-first", ps=role(1), worker=role(1)))
            jobs.until_pods("by-first", "ps-0", "worker-0")
            assert httpx.get(f"http://127.0.0.1:{ports[1]}/readyz", trust_env=False).status_code == 200
            # It has looked whether the definition is there, and reads the Lease: no write, no other request.
            made = {key[2:] for key in samples(ports[1]) if key[0] == "clickline_operator_api_requests_total"}
            assert made == {("paddlejobs", "LIST"), ("leases", "GET")}

            first.kill()
            jobs.create(paddle_job("by-second", ps=role(1), worker=role(1)))
            eventually(lambda: leads(ports[1]), what="a successor", process=second)
            jobs.until_pods("by-second", "ps-0", "worker-0")
            assert pods_of("by-first") == 2  # of each role once: nothing was made twice

            with operator(2) as third:
                eventually(lambda: leads(ports[2]) is False, what="one that stands by", process=third)
                second.send_signal(signal.SIGSTOP)
                eventually(lambda: leads(ports[2]), what="a successor", process=third)
                now = holder(cluster)
                jobs.create(paddle_job("by-third", ps=role(1), worker=role(1)))
                jobs.until_pods("by-third", "ps-0", "worker-0")
                second.send_signal(signal.SIGCONT)
                assert second.wait(timeout=30) == 7
                assert holder(cluster) == now
                assert "has run out, so nothing is written" in logs[1].read_text()
                assert pods_of("by-third") == 2
            assert holder(cluster) == ""  # told to stop, it gives it back


def test_an_operator_that_stands_by_ends_when_it_is_told_to(cluster: TestCluster, tmp_path: Path) -> None:
    port, log = port_range(1), tmp_path / "operator.log"
    with JobsClient(cluster, "paddle-system") as system:
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": LEASE},
            "spec": {"holderIdentity": "somebody", "leaseDurationSeconds": 3600},
        }
        system.kubectl("apply", "-f", "-", given=body)
        try:
            with operator_process(cluster, log, *OPTIONS, "--health", f"127.0.0.1:{port}") as process:
                eventually(lambda: "held by somebody" in log.read_text(), what="one that stands by", process=process)
                assert leads(port) is False
        finally:
            system.kubectl("delete", "lease", LEASE)


def test_an_operator_tells_what_it_does(cluster: TestCluster, tmp_path: Path) -> None:
    port = port_range(1)
    options = ("--namespace", "counted", "--health", f"127.0.0.1:{port}", "--progress-every", "0.1")
    with (
        JobsClient(cluster, "counted") as jobs,
        operator_process(cluster, tmp_path / "operator.log", *options) as process,
    ):
        jobs.operator = process
        jobs.create(paddle_job("counted", worker=role(2)))
        jobs.until_pods("counted", "worker-0", "worker-1")
        jobs.run_pods("counted", "worker-0", address="127.0.0.9")  # where nobody answers
        jobs.run_pods("counted", "worker-1")
        jobs.until("counted", "Running")
        failures = ("clickline_operator_poll_failures_total",)
        eventually(lambda: samples(port).get(failures), what="a poll that failed", process=process)
        found = samples(port)
        assert found["clickline_operator_jobs", "Running"] == 1
        assert found["clickline_operator_api_requests_total", "201", "pods", "POST"] == 2
        assert found["clickline_operator_api_requests_total", "201", "secrets", "POST"] == 1
        assert found["clickline_operator_reconciles_total", "done"] >= 2
        assert found["clickline_operator_reconcile_seconds_count",] >= 2
        assert found["clickline_operator_leader",] == 1
        for path in ("healthz", "readyz"):
            answer = httpx.get(f"http://127.0.0.1:{port}/{path}", trust_env=False)
            assert (answer.status_code, answer.json()) == (200, {"well": True, "complaints": []})
        check_frozen(process, port)


def check_frozen(process: subprocess.Popen[bytes], port: int) -> None:
    """An operator whose loop does not turn does not answer."""
    process.send_signal(signal.SIGSTOP)
    try:
        with pytest.raises(httpx.TimeoutException):
            httpx.get(f"http://127.0.0.1:{port}/healthz", trust_env=False, timeout=0.5)
    finally:
        process.send_signal(signal.SIGCONT)


def test_a_look_at_a_job_that_hangs_is_reported() -> None:
    async def hangs() -> list[str]:
        begun = asyncio.Event()

        async def handle(_: JobKey) -> None:
            begun.set()
            await asyncio.Event().wait()

        queue = WorkQueue(handle, workers=1, gather=0.0)
        task = asyncio.create_task(queue.run())
        queue.add(JobKey("n", "j"))
        await begun.wait()
        assert queue.hanging(60.0) == []
        since = time.monotonic()
        while not (found := queue.hanging(0.01)):
            assert time.monotonic() - since < 60
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return found

    assert asyncio.run(hangs()) == ["n/j has been looked at for 0 s"]


def test_operators_of_different_namespaces_give_out_different_ports(
    jobs: JobsClient, cluster: TestCluster, tmp_path: Path
) -> None:
    jobs.create(paddle_job("host-here", intranet="Host", worker=role(2)))
    jobs.until_pods("host-here", "worker-0", "worker-1")
    with (
        JobsClient(cluster, "elsewhere") as others,
        operator_process(cluster, tmp_path / "operator.log", "--namespace", "elsewhere") as process,
    ):
        others.operator = process
        others.create(paddle_job("host-there", intranet="Host", worker=role(2)))
        others.until_pods("host-there", "worker-0", "worker-1")
        there = set(others.status("host-there")["portBlocks"].values())
        jobs.create(paddle_job("host-again", intranet="Host", worker=role(1)))
        jobs.until_pods("host-again", "worker-0")
    here = [port for name in jobs.names("paddlejobs") for port in (jobs.status(name).get("portBlocks") or {}).values()]
    assert len(here) >= 3
    assert len(there) == 2
    assert not there & set(here)
