"""A PaddleJob really trains: its pods are processes of this machine, with nothing but the environment of their pods."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.clusters import settings_for
from support.eventually import eventually
from support.kubernetes.jobs_client import JobsClient, paddle_job, role
from support.kubernetes.process_kubelet import ProcessKubelet
from support.processes import write_job


@pytest.mark.heavy
def test_servers_and_workers_train_by_what_the_operator_tells_them(
    jobs: JobsClient, criteo: dict[str, str], tmp_path: Path
) -> None:
    settings = settings_for(criteo, tmp_path, "pods", checkpoint={"every_steps": 100}, train={"epochs": 3})
    file = str(write_job(tmp_path / "job.yaml", settings))
    servers, workers = {"args": ["pserver", file]}, {"args": ["trainer", file]}
    jobs.create(paddle_job("trains", ps=role(2, container=servers), worker=role(2, container=workers)))
    kubelet = ProcessKubelet(jobs, "trains", tmp_path)
    polled: list[dict[str, object]] = []
    try:

        def finished() -> str | None:
            status = jobs.status("trains")
            phase, progress = status.get("phase"), status.get("trainerStatus") or {}
            polled.extend([progress] if progress.get("phase", "finished") != "finished" else [])
            return phase if phase in ("Completed", "Failed") else None

        phase = eventually(finished, what="the end of the job", doing=kubelet.step)
        assert phase == "Completed", f"{jobs.status('trains')}\n{kubelet.logs()}"
    finally:
        kubelet.stop()
    result = json.loads((tmp_path / "runs" / "pods" / "result.json").read_text())
    assert (result["rows"], result["lost_pushes"]) == (13500, 0)
    assert result["test"]["auc"] > 0.55, result
    status = jobs.status("trains")
    assert "failures" not in status
    progress = status["trainerStatus"]
    assert (progress["progressPercentage"], progress["estimatedRemainingSeconds"]) == (100, 0)
    assert (progress["phase"], progress["rows"]) == ("finished", 13500)
    assert (progress["epochs"], progress["epoch"]) == (3, 3)
    figures = {metric["name"]: float(metric["value"]) for metric in progress["metrics"]}
    assert figures["test_auc"] == pytest.approx(result["test"]["auc"], abs=1e-5)
    assert progress["lastUpdatedTime"] <= status["completionTime"]
    assert polled, "and it was asked while it ran"


@pytest.mark.heavy
def test_progress_of_ranks_is_that_of_the_first_and_grows(
    jobs: JobsClient, criteo: dict[str, str], tmp_path: Path
) -> None:
    settings = settings_for(
        criteo, tmp_path, "ranked", strategy="collective", cluster={"pservers": 0}, train={"epochs": 10_000}
    )
    ranks = {"args": ["train", str(write_job(tmp_path / "job.yaml", settings))]}
    jobs.create(paddle_job("ranked", worker=role(2, container=ranks)))
    kubelet = ProcessKubelet(jobs, "ranked", tmp_path)
    try:

        def rows(more_than: int) -> int:
            progress = jobs.status("ranked").get("trainerStatus") or {}
            return int(progress.get("rows", 0) > more_than and progress["rows"])

        first = eventually(lambda: rows(0), what="progress", doing=kubelet.step)
        version = jobs.get("paddlejobs", "ranked")
        assert version is not None
        assert version["status"]["phase"] == "Running"
        eventually(lambda: rows(first), what="more rows, with the next epoch", doing=kubelet.step)
    finally:
        kubelet.stop()
        jobs.delete("paddlejobs", "ranked")
