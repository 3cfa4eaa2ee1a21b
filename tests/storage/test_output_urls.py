"""Runs whose output is a bucket: complete there, resumed from nothing, killed while they upload."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from clickline.config.run_location import location_of
from clickline.errors import CheckpointError
from clickline.launch.local.training_run import train_job as train_locally
from clickline.train.checkpoints.checkpoint_inspection import difference
from clickline.train.session import train_job
from support.doubles.s3_server import SECRET, ObjectServer
from support.eventually import eventually
from support.processes import start, write_job
from support.training.remote_runs import (
    another_machine,
    complete_steps,
    folders,
    has_uploaded,
    job_at,
    newest_in,
    objects,
    same_rows,
    settings_at,
)


@pytest.fixture(autouse=True)
def first_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    return another_machine(monkeypatch, tmp_path / "first-machine")


def lines_of(content: bytes) -> list[dict[str, object]]:
    lines = [json.loads(line) for line in content.splitlines()]
    return [{key: value for key, value in line.items() if key != "rows_per_second"} for line in lines]


def test_a_run_is_complete_at_its_url_and_goes_on_from_there_on_another_machine(
    s3: ObjectServer, bucket: str, criteo: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"s3://{bucket}/runs"
    first = train_job(job_at(url, criteo, checkpoint={"keep": 2}))
    assert first.url == f"{url}/small"
    assert complete_steps(s3, bucket) == [20, 30]
    another_machine(monkeypatch, tmp_path / "second-machine")
    second = train_job(job_at(url, criteo, steps=40, checkpoint={"keep": 2}), resume=True)
    assert second.steps == 40
    assert folders(s3, bucket) == {"step-0000000030", "step-0000000040"}, "retention is that of a directory"

    local = str(tmp_path / "runs")
    train_job(job_at(local, criteo))
    whole = train_job(job_at(local, criteo, steps=40), resume=True)
    assert difference(newest_in(second.directory), newest_in(whole.directory))["same"]
    assert same_rows(newest_in(second.directory), newest_in(whole.directory))
    found = objects(s3, bucket)
    assert lines_of(found["runs/small/metrics.jsonl"]) == lines_of((whole.directory / "metrics.jsonl").read_bytes())
    assert json.loads(found["runs/small/result.json"])["test"] == whole.test
    assert json.loads(found["runs/small/status.json"])["phase"] == "finished"
    assert json.loads(found["runs/small/job.json"])["output"] == url
    assert not [name for name in found if ".lock" in name], "the lease is over"
    assert not [name for name, content in found.items() if SECRET.encode() in content]


def test_a_run_that_is_there_is_resumed_or_thrown_away_on_request_only(
    s3: ObjectServer, bucket: str, criteo: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"s3://{bucket}/runs"
    job = job_at(url, criteo, steps=10)
    with pytest.raises(CheckpointError, match=rf"{url}/small has no checkpoint to resume from; leave --resume out"):
        train_job(job, resume=True)
    train_job(job)
    another_machine(monkeypatch, tmp_path / "second-machine")
    before = objects(s3, bucket)
    with pytest.raises(CheckpointError, match=rf"{url}/small already holds 1 checkpoint\(s\), the newest of step 10"):
        train_job(job)
    assert objects(s3, bucket) == before
    other = job_at(url, criteo, steps=20, seed=6)
    with pytest.raises(CheckpointError, match="is of another job: seed differ"):
        train_job(other, resume=True)
    train_job(job_at(url, criteo, steps=5, checkpoint={"every_steps": 5}), fresh=True)
    assert folders(s3, bucket) == {"step-0000000005"}


def test_a_warm_start_from_a_bucket_goes_on_elsewhere_with_what_it_was_given(
    s3: ObjectServer, bucket: str, criteo: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"s3://{bucket}/runs"
    train_job(job_at(url, criteo, steps=10))
    changes = {"name": "warm", "data": {"train": [criteo["test"]]}, "tables": {"embedding": {"restart_epochs": True}}}
    train_locally(job_at(url, criteo, steps=10, **changes), warm_start=f"{url}/small")
    assert complete_steps(s3, bucket, "runs/warm") == [20]
    another_machine(monkeypatch, tmp_path / "second-machine")
    # The second epoch begins with the rows that the run was given, which were fetched for it.
    result = train_job(job_at(url, criteo, steps=20, **changes, train={"epochs": 2}), resume=True)
    assert result.steps == 30
    assert (result.directory / "start" / "manifest.json").is_file()


def test_a_local_copy_that_another_machine_has_overtaken_is_replaced_and_nothing_is_thrown_away(
    bucket: str, criteo: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first_machine: Path
) -> None:
    url = f"s3://{bucket}/runs"
    first = train_job(job_at(url, criteo, steps=10))
    # As if the upload of its checkpoint had not come to its end.
    ledger = first.directory / ".uploaded.json"
    ledger.write_text(json.dumps({**json.loads(ledger.read_text()), "uploaded": {}}))
    monkeypatch.setenv("CLICKLINE_CACHE", str(tmp_path / "second-machine"))
    train_job(job_at(url, criteo, steps=20), resume=True)
    monkeypatch.setenv("CLICKLINE_CACHE", str(first_machine))
    said: list[str] = []
    result = train_job(job_at(url, criteo, steps=30), resume=True, watcher=Said(said))
    assert result.directory == first.directory
    assert f"resuming from {first.directory}/checkpoints/step-0000000020, step 20" in said
    (aside,) = (line for line in said if "has gone on elsewhere" in line)
    assert (Path(aside.rpartition(" ")[2]) / "checkpoints" / "step-0000000010" / "manifest.json").is_file()
    # Nobody else has written since: what is here is used as it is.
    said.clear()
    train_job(job_at(url, criteo, steps=40), resume=True, watcher=Said(said))
    assert not any(line.startswith("fetching") for line in said)


@pytest.mark.heavy
@pytest.mark.parametrize("point", ["upload.file-sent:5"])
def test_a_run_killed_in_the_middle_of_an_upload_goes_on_from_the_newest_complete_checkpoint(
    point: str, s3: ObjectServer, bucket: str, criteo: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"s3://{bucket}/runs"
    job = write_job(tmp_path / "job.yaml", settings_at(url, criteo))
    process = start("train", job, env={**os.environ, "OMP_NUM_THREADS": "1", "CLICKLINE_FAIL_AT": point})
    _, err = process.communicate(timeout=120)
    assert process.returncode == -signal.SIGKILL, err
    complete = complete_steps(s3, bucket)
    assert len(complete) == 1
    half = folders(s3, bucket) - {f"step-{complete[0]:010d}"}
    assert len(half) == 1, "one upload was interrupted"

    another_machine(monkeypatch, tmp_path / "second-machine")
    said: list[str] = []
    result = train_job(job_at(url, criteo, steps=40), resume=True, watcher=Said(said))
    assert any(f"resuming from {result.directory}/checkpoints/step-{complete[0]:010d}" in line for line in said)
    assert 40 in complete_steps(s3, bucket)
    assert folders(s3, bucket) == {f"step-{step:010d}" for step in complete_steps(s3, bucket)}
    whole = train_job(job_at(str(tmp_path / "runs"), criteo, steps=40))
    assert same_rows(newest_in(result.directory), newest_in(whole.directory))


@pytest.mark.heavy
def test_a_run_killed_while_it_removes_a_checkpoint_leaves_none_that_is_half(
    s3: ObjectServer, bucket: str, criteo: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"s3://{bucket}/runs"
    train_job(job_at(url, criteo, steps=20, checkpoint={"keep": 2}))
    file = write_job(tmp_path / "job.yaml", settings_at(url, criteo, steps=40, checkpoint={"keep": 2}))
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CLICKLINE_FAIL_AT": "upload.marker-removed"}
    process = start("train", file, "--resume", env=environment)
    _, err = process.communicate(timeout=120)
    assert process.returncode == -signal.SIGKILL, err
    complete = complete_steps(s3, bucket)
    assert complete[-1] == 40
    assert len(folders(s3, bucket)) == len(complete) + 1, "the files of one are still there, its manifest is not"
    another_machine(monkeypatch, tmp_path / "second-machine")
    train_job(job_at(url, criteo, steps=40, checkpoint={"keep": 2}), resume=True)
    assert folders(s3, bucket) == {f"step-{step:010d}" for step in complete_steps(s3, bucket)}


@pytest.mark.heavy
def test_an_interrupted_run_uploads_its_last_checkpoint(
    s3: ObjectServer, bucket: str, criteo: dict[str, str], tmp_path: Path
) -> None:
    job = job_at(f"s3://{bucket}/runs", criteo)
    settings = settings_at(job.output, criteo, steps=100_000, train={"epochs": 1000}, checkpoint={"every_steps": 50})
    process = start("train", write_job(tmp_path / "job.yaml", settings), env={**os.environ, "OMP_NUM_THREADS": "1"})
    try:
        eventually(
            lambda: has_uploaded(location_of(job).directory),
            process=process,
            what="a checkpoint in the bucket",
        )
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 130, err
    # It "was written", or "is the newest checkpoint" if the signal came just after one of the run's own.
    assert "; nothing is lost; " in err
    newest = newest_in(location_of(job).directory)
    assert complete_steps(s3, bucket)[-1] == newest.step
    assert json.loads(objects(s3, bucket)["runs/small/status.json"])["phase"] == "interrupted"


class Said:
    """A watcher that notes every line."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines

    def say(self, text: str) -> None:
        self.lines.append(text)

    def begin(self, title: str) -> None:
        self.lines.append(title)

    def advance(self, *, share: float | None, facts: object) -> None:
        pass

    def end(self) -> None:
        pass
