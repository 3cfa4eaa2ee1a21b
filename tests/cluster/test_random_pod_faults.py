"""Random faults on the pods and the operator of one job: it ends by itself, and its books balance."""

from __future__ import annotations

import os
import secrets
from contextlib import closing
from pathlib import Path

import pytest

from support.kubernetes.full_cluster import FullCluster
from support.kubernetes.jobs_client import JobsClient
from support.kubernetes.pods.pod_data import PodData
from support.kubernetes.pods.pod_runs import PodRun
from support.kubernetes.pods.pod_storage import ObjectStore
from support.kubernetes.pods.random_pod_faults import SETTINGS, RandomPodFaults

FAULTS = 8
pytestmark = [pytest.mark.cluster, pytest.mark.heavy]


def test_a_job_ends_and_its_books_balance_whatever_happens_to_pods_and_operator(
    node: FullCluster, jobs: JobsClient, store: ObjectStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seed = int(os.environ.get("CLICKLINE_TEST_SEED") or secrets.randbelow(1_000_000))
    data = PodData(tmp_path / "data", files=24, rows=100, nap=1.5)
    settings = {"intranet": "Service", "backoffLimit": 1000, "settings": SETTINGS, "storage": store}
    with closing(PodRun(node, jobs, "random", data, **settings)) as run:
        faults = RandomPodFaults(node, run, seed=seed)
        run.cuts(1)
        try:
            faults.hurt(FAULTS)
            result = run.ends()
        finally:
            with capsys.disabled():
                print(f"\nCLICKLINE_TEST_SEED={seed}: {dict(faults.done)}")
    assert result["rows"] == data.rows + result["repeated_rows"], (seed, result)
    assert result["set_aside"] == [], (seed, result)
