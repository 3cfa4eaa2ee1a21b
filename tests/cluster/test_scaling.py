"""Workers join and leave while a job trains: by hand, and by a policy."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from support.kubernetes.full_cluster import FullCluster
from support.kubernetes.jobs_client import JobsClient
from support.kubernetes.pods.pod_data import PodData
from support.kubernetes.pods.pod_runs import PodRun

pytestmark = [pytest.mark.cluster, pytest.mark.heavy]


def test_a_third_worker_joins_while_two_train(node: FullCluster, jobs: JobsClient, tmp_path: Path) -> None:
    data = PodData(tmp_path / "data")
    with closing(PodRun(node, jobs, "scales", data)) as run:
        run.reaches(lambda: run.status().get("step", 0) >= 10, "step 10")
        before = run.uids()
        jobs.patch("scales", {"worker": {"replicas": 3}})
        run.member("trainer.2")
        assert {name: uid for name, uid in run.uids().items() if name in before} == before, "others were replaced"
        result = run.ends()
    assert result["rows"] == data.rows + result["repeated_rows"], result


def test_a_policy_adds_workers_for_a_backlog_and_takes_them_back_when_it_is_done(
    node: FullCluster, jobs: JobsClient, tmp_path: Path
) -> None:
    data = PodData(tmp_path / "data", files=14, rows=200, held=2, nap=2.0)
    policy = {"metric": "backlog", "target": 2, "stabilizationSeconds": 5}
    worker = {"replicas": 1, "requests": 1, "limits": 3, "autoscaling": policy}
    settings = {"train": {"batch_size": 25}}
    with closing(PodRun(node, jobs, "autoscales", data, worker=worker, settings=settings)) as run:
        run.member("trainer.0")
        first = run.uids()
        # 13 pieces wait, two of which are one worker's: more would be wanted than the limit.
        run.reaches(lambda: _workers(run) == [0, 1, 2], "three workers, the limit")
        run.member("trainer.2")

        def fewer() -> bool:
            pieces = run.status().get("pieces") or {"holders": [], "left": 1}
            holders = [int(name.rpartition(".")[2]) for name in pieces["holders"]]
            if pieces["left"] == 0 and holders in ([0, 2], [1, 2]):
                run.let_go("worker-2")  # whoever has a piece stays, so this one must have none
            return bool(holders) and max(holders) < 2 and _workers(run) == list(range(max(holders) + 1))

        # Held pieces are of those trainers who came for them; who comes after the last of these is not needed.
        run.reaches(fewer, "no worker after the last one that waits in a piece")
        assert run.uids().items() >= {name: first[name] for name in ("ps-0", "ps-1", "worker-0")}.items()
        scaled = [said for reason, said in jobs.events("autoscales") if reason == "Scaled"]
        result = run.ends()
    assert all("by the autoscaling policy" in said for said in scaled), scaled
    assert (result["rows"], result["repeated_rows"]) == (data.rows, 0), "somebody had to go who had a piece"


def _workers(run: PodRun) -> list[int]:
    return sorted(int(name.rpartition("-")[2]) for name in run.uids() if name.startswith("worker-"))
