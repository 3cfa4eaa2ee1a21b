"""Jobs by their records: listed, shown and stopped by the names that `clickline jobs` gives them."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clickline.launch import job_records
from support.eventually import eventually
from support.processes import ENVIRONMENT, run, small_settings, start, write_job


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    monkeypatch.setenv("CLICKLINE_STATE", str(tmp_path / "jobs"))
    yield {**ENVIRONMENT, "CLICKLINE_STATE": str(tmp_path / "jobs")}


def record(name: str, **facts: Any) -> job_records.JobRecord:
    made = job_records.new_record(name, name="demo", launcher="local", run_directory="/nowhere", hosts=[])
    for key, value in facts.items():
        setattr(made, key, value)
    return made


def test_a_run_on_this_machine_is_a_job_like_any_other(environment, criteo, tmp_path):
    settings = {**small_settings(criteo, tmp_path), "train": {"batch_size": 10, "epochs": 200}}
    process = start("train", write_job(tmp_path / "job.yaml", settings), "--json", env=environment)

    def listed() -> list[dict[str, Any]]:
        return json.loads(run("jobs", "--json", env=environment).stdout)

    eventually((tmp_path / "runs" / "small" / "status.json").exists, process=process, seconds=60)
    [job] = listed()
    assert (job["name"], job["launcher"], job["phase"]) == ("small", "local", "running")
    assert json.loads(run("status", job["job"], "--json", env=environment).stdout)["job"] == "small"
    assert "trainer.0" in run("logs", job["job"], "trainer", "-n", "5", env=environment).stdout
    stopped = run("stop", job["job"], env=environment)
    assert stopped.returncode == 0, stopped.stderr
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert listed()[0]["phase"] == "stopped"


def test_a_job_is_found_by_its_beginning_or_the_name_of_its_run_and_an_unknown_one_is_refused(environment):
    for job in ("JOB20260101000000-aaaa", "JOB20260102000000-bbbb"):
        job_records.write_record(record(job))
    assert job_records.read_record("JOB20260101").job == "JOB20260101000000-aaaa"
    assert job_records.read_record("demo").job == "JOB20260102000000-bbbb"
    with pytest.raises(job_records.JobError, match="2 jobs 'JOB2026'"):
        job_records.read_record("JOB2026")
    with pytest.raises(job_records.JobError, match=r"no job 'nonsense'.*the last ones: JOB20260101000000-aaaa"):
        job_records.read_record("nonsense")


def test_a_job_whose_launcher_is_gone_is_lost(environment):
    child = os.fork()
    if not child:
        signal.pause()
    mine = record("JOB20260101000000-aaaa", pid=child, born=job_records.birth(child))
    assert mine.phase_now == job_records.JobPhase.RUNNING
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert mine.phase_now == job_records.JobPhase.LOST


def test_old_records_are_forgotten_but_none_of_a_job_that_runs(environment, monkeypatch):
    monkeypatch.setattr(job_records, "_KEPT", 2)
    for day, phase in enumerate(("running", "finished", "failed", "finished"), 1):
        job_records.write_record(record(f"JOB2026010{day}000000-aaaa", phase=job_records.JobPhase(phase)))
    assert [kept.job[10:11] for kept in job_records.list_records()] == ["1", "3", "4"]
