"""A server's pod is deleted in the middle: it comes back, and every row is trained, with repeats counted."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from support.kubernetes.full_cluster import FullCluster
from support.kubernetes.jobs_client import JobsClient
from support.kubernetes.pods.pod_data import PodData
from support.kubernetes.pods.pod_runs import PodRun

SETTINGS = {"train": {"batch_size": 25}, "checkpoint": {"every_steps": 10}}
pytestmark = [pytest.mark.cluster, pytest.mark.heavy]


@pytest.mark.parametrize(
    ("intranet", "server", "kept"),
    [
        pytest.param("Service", 1, "", id="one-with-nothing-shared"),
        pytest.param("Service", 0, "store", id="the-one-with-the-coordinator-and-an-object-store"),
        pytest.param("PodIP", 0, "volume", id="the-one-with-the-coordinator-by-ip-and-a-volume"),
    ],
)
def test_a_deleted_server_comes_back_and_the_job_completes(
    node: FullCluster,
    jobs: JobsClient,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    intranet: str,
    server: int,
    kept: str,
) -> None:
    data = PodData(tmp_path / "data")
    storage = request.getfixturevalue(kept) if kept else None
    name = f"loses-{intranet.lower()}-{server}"
    with closing(PodRun(node, jobs, name, data, storage=storage, settings=SETTINGS, intranet=intranet)) as run:
        run.cuts(1)
        before = run.uids()
        run.delete_pod(f"ps-{server}")
        # Whoever knew an IP is replaced with the pod that had it; the name of a service stays.
        replaced = {f"ps-{server}"} if intranet == "Service" else set(before)

        def others() -> set[str]:
            return {name for name, uid in run.uids().items() if uid != before[name]}

        run.reaches(lambda: len(run.uids()) == len(before) and others() == replaced, f"new pods {replaced}")
        result = run.ends()
    assert result["rows"] == data.rows + result["repeated_rows"], result
