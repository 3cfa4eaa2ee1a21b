"""Runs of several processes whose output is a bucket: one of them talks to it, and resuming gives the same bits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clickline.config import Job
from clickline.config.run_location import run_directory_of
from clickline.launch.local.training_run import train_job
from clickline.train.checkpoints.checkpoint_inspection import difference
from support.clusters import Parts, settings_for
from support.doubles.s3_server import ObjectServer
from support.processes import write_job
from support.training.remote_runs import (
    another_machine,
    complete_steps,
    has_uploaded,
    names,
    newest_in,
    objects,
    same_rows,
)

pytestmark = pytest.mark.heavy


def job_of(criteo: dict[str, str], tmp_path: Path, output: str, steps: int, **changes: Any) -> Job:
    settings = settings_for(criteo, tmp_path, "cluster", **changes)
    settings["output"] = output
    settings["train"] = {"batch_size": 100, "log_every": 10, "epochs": 1, "max_steps": steps}
    settings["checkpoint"] = {"every_steps": 10, "keep": 2}
    return Job.model_validate(settings)


def test_two_synchronous_servers_resume_from_a_bucket_to_the_same_bits(
    s3: ObjectServer, bucket: str, criteo: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = {"strategy": "sync", "cluster": {"trainers": 1}}
    whole = train_job(job_of(criteo, tmp_path, str(tmp_path / "runs"), 30, **changes))
    another_machine(monkeypatch, tmp_path / "first-machine")
    url = f"s3://{bucket}/runs"
    train_job(job_of(criteo, tmp_path, url, 20, **changes))
    assert complete_steps(s3, bucket, "runs/cluster") == [10, 20]
    another_machine(monkeypatch, tmp_path / "second-machine")
    resumed = train_job(job_of(criteo, tmp_path, url, 30, **changes), resume=True)
    one, other = newest_in(resumed.directory), newest_in(whole.directory)
    assert one.step == other.step == 30
    assert len([name for name in one.manifest["files"] if name.startswith("table-embedding-")]) == 2
    assert difference(one, other)["same"]
    assert same_rows(one, other)
    assert resumed.test == whole.test
    found = json.loads(objects(s3, bucket)["runs/cluster/result.json"])
    assert (found["url"], found["test"]) == (f"{url}/cluster", whole.test)
    assert complete_steps(s3, bucket, "runs/cluster") == [20, 30]


def test_ranks_write_to_a_bucket_through_their_launcher(
    s3: ObjectServer, bucket: str, criteo: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    another_machine(monkeypatch, tmp_path / "machine")
    changes = {"strategy": "collective", "cluster": {"pservers": 0, "trainers": 2}}
    result = train_job(job_of(criteo, tmp_path, f"s3://{bucket}/runs", 20, **changes))
    assert result.url == f"s3://{bucket}/runs/cluster"
    assert complete_steps(s3, bucket, "runs/cluster") == [10, 20]
    assert json.loads(objects(s3, bucket)["runs/cluster/status.json"])["phase"] == "finished"


def test_only_the_coordinator_talks_to_the_bucket_and_is_replaced_on_another_machine(
    s3: ObjectServer, bucket: str, criteo: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    another_machine(monkeypatch, tmp_path / "machine")
    settings = settings_for(criteo, tmp_path, "parts", checkpoint={"every_steps": 20, "transfer": "network"})
    settings |= {"output": f"s3://{bucket}/runs", "cluster": {**settings["cluster"], "pservers": 1, "trainers": 1}}
    run = Parts(settings)
    try:
        run.start("coordinator")
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            run.shared[name] = ""
        run.start("pserver")
        run.start("trainer")
        run.reaches(lambda: has_uploaded(run.directory), "an upload")
        run.kill_hard("coordinator.0")
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            del run.shared[name]
        # The others live on, and do not see the directory of either.
        another_machine(monkeypatch, tmp_path / "another-machine")
        run.directory = run_directory_of(run.job)
        run.shared["CLICKLINE_DIRECTORY"] = str(run.directory)
        run.file = write_job(tmp_path / "parts.yaml", settings)
        run.start("coordinator")
        result = run.ends()
    finally:
        run.close()
    assert "was not finished by a coordinator on another machine: taking it up" in run.log("coordinator.0")
    assert result["generation"] > 1, "the server has gone back to the checkpoint"
    assert all(process.poll() == 0 for process in run.started.values())
    assert result["url"] == f"s3://{bucket}/runs/parts"
    assert complete_steps(s3, bucket, "runs/parts")[-1] == result["steps"]
    assert not [name for name in names(s3, bucket) if ".lock" in name]
