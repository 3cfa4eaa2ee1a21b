"""The shipped examples train in pods, to the bits that the same job comes to on one machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.eventually import eventually
from support.kubernetes.full_cluster import FullCluster
from support.kubernetes.jobs_client import JobsClient
from support.kubernetes.shipped_examples import ShippedExample, figures, result_in

pytestmark = [pytest.mark.cluster, pytest.mark.heavy]


@pytest.fixture
def claim(jobs: JobsClient, place: Path) -> Iterator[Path]:
    """The claim `clickline-runs` of the examples, a directory of this machine."""
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "clickline-runs"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "",
            "hostPath": {"path": str(place), "type": "Directory"},
        },
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "clickline-runs"},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "",
            "volumeName": "clickline-runs",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    jobs.kubectl("apply", "-f", "-", given={"apiVersion": "v1", "kind": "List", "items": [volume, claim]})
    yield place
    jobs.kubectl("delete", "pvc", "clickline-runs")
    jobs.kubectl("delete", "pv", "clickline-runs", namespaced=False)


def test_servers_and_workers_train_with_nothing_shared(
    node: FullCluster, jobs: JobsClient, wide_and_deep_here: dict[str, Any]
) -> None:
    example = ShippedExample("wide_and_deep", strategy="sync")
    with trained(jobs, example):
        pods = jobs.pods(example.name)
        assert set(pods) == {f"{example.name}-{pod}" for pod in ("ps-0", "ps-1", "worker-0", "worker-1")}, (
            "cleanPodPolicy is Never"
        )
        result = result_in(node.own_volume(pods[f"{example.name}-ps-0"], "runs") / example.settings["name"])
        assert not list(node.own_volume(pods[f"{example.name}-ps-1"], "runs").iterdir()), "the run is server 0's"
    assert figures(result) == figures(wide_and_deep_here)


def test_servers_and_workers_train_with_a_volume_that_all_can_write(
    jobs: JobsClient, claim: Path, wide_and_deep_here: dict[str, Any]
) -> None:
    example = ShippedExample("wide_and_deep_podip", strategy="sync")
    with trained(jobs, example):
        jobs.wait(lambda: not jobs.pods(example.name), "no pods, as cleanPodPolicy is OnCompletion")
        result = result_in(claim / example.settings["name"])
    assert figures(result) == figures(wide_and_deep_here)


def test_workers_without_servers_train(jobs: JobsClient, claim: Path, tmp_path: Path) -> None:
    example = ShippedExample("resnet")
    with trained(jobs, example):
        assert jobs.status(example.name)["mode"] == "Collective"
        result = result_in(claim / example.settings["name"])
    assert figures(result) == figures(example.result_here(tmp_path))


@contextmanager
def trained(jobs: JobsClient, example: ShippedExample) -> Iterator[None]:
    """The job, completed; it is deleted at the end."""
    example.apply_with(jobs.kubectl)
    try:

        def ended() -> dict[str, Any] | None:
            status = jobs.status(example.name)
            return status if status.get("phase") in ("Completed", "Failed") or "failures" in status else None

        status = eventually(ended, what=f"the end of {example.name}")
        assert status["phase"] == "Completed", f"{status}\n{logs(jobs, example.name)}"
        assert "failures" not in status, status
        yield
    finally:
        jobs.delete("paddlejobs", example.name)
        jobs.wait(lambda: not jobs.pods(example.name), f"no pods of {example.name}")


def logs(jobs: JobsClient, job: str) -> str:
    return "\n".join(
        f"-- {pod}\n{jobs.kubectl('logs', '--tail=30', pod, check=False).stdout}" for pod in jobs.pods(job)
    )
