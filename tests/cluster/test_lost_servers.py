"""A server's pod is deleted in the middle: it comes back, and every row is trained, with repeats counted."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from support.clusters import settings_for
from support.hosts.held_data import hold
from support.kubernetes.full_cluster import FullCluster
from support.kubernetes.jobs_client import JobsClient
from support.kubernetes.pod_runs import PodRun

ROWS = 4500
pytestmark = [pytest.mark.cluster, pytest.mark.heavy]


@pytest.mark.parametrize(
    ("intranet", "server"),
    [
        pytest.param("Service", 1, id="one"),
        pytest.param("Service", 0, id="the-one-with-the-coordinator"),
        pytest.param("PodIP", 0, id="the-one-with-the-coordinator-by-ip"),
    ],
)
def test_a_deleted_server_comes_back_and_the_job_completes(
    node: FullCluster, jobs: JobsClient, criteo: dict[str, str], place: Path, intranet: str, server: int
) -> None:
    data = hold(criteo["train"], place / "data")
    settings = settings_for(
        criteo, place, f"loses-{intranet.lower()}-{server}", checkpoint={"every_steps": 10}, train={"batch_size": 100}
    )
    settings["data"] = {**settings["data"], **data.settings, "test": []}
    with closing(PodRun(node, jobs, settings, rows=ROWS, intranet=intranet)) as run:
        run.cuts(1)
        before = run.uids()
        lost = run.delete_pod(f"ps-{server}")
        run.until_replaced(f"ps-{server}", lost)
        # Whoever knew an IP is replaced with the pod that had it; the name of a service stays.
        replaced = {f"ps-{server}"} if intranet == "Service" else set(before)

        def others() -> set[str]:
            return {name for name, uid in run.uids().items() if uid != before[name]}

        run.reaches(lambda: len(run.uids()) == len(before) and others() == replaced, f"new pods {replaced}")
        data.let_go()
        result = run.ends()
    assert result["rows"] == ROWS + result["repeated_rows"], result
