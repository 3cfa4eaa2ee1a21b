"""Workers that are added while a job trains take part in it."""

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


def test_a_third_worker_joins_while_two_train(
    node: FullCluster, jobs: JobsClient, criteo: dict[str, str], place: Path
) -> None:
    data = hold(criteo["train"], place / "data")
    settings = settings_for(criteo, place, "scales", checkpoint={"every_steps": 10})
    settings["data"] = {**settings["data"], **data.settings, "test": []}
    with closing(PodRun(node, jobs, settings, rows=ROWS)) as run:
        run.steps(10)
        before = run.uids()
        jobs.patch("scales", {"worker": {"replicas": 3}})
        run.pid("trainer.2")
        assert {name: uid for name, uid in run.uids().items() if name in before} == before, "others were replaced"
        data.let_go()
        result = run.ends()
    assert result["rows"] == ROWS + result["repeated_rows"], result
