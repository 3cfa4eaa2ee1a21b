"""Two trainings in one directory: the second is refused, and one that was overtaken ends."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from clickline import train_job
from clickline.config import Job
from clickline.errors import CheckpointError, PeerError, ReplacedError
from clickline.ps.coordinator.state.record import RecordFile, RunRecord
from clickline.train.run_files.run_lock import FILE, RunLock
from support.processes import small_settings, start, write_job

HOLDER = """
import sys, time
from pathlib import Path
from clickline.train.run_files.run_lock import RunLock
lock = RunLock(Path(sys.argv[1]), role="train")
print(lock.epoch, flush=True)
time.sleep(1000)
"""


def contents(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.fixture
def holder(tmp_path):
    """A process that holds the directory `runs/small`."""
    (tmp_path / "runs" / "small").mkdir(parents=True)
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / "runs" / "small")], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "1\n"
    yield process
    process.kill()
    process.communicate()


@pytest.mark.parametrize("options", [{}, {"resume": True}, {"fresh": True}], ids=["plain", "resume", "fresh"])
@pytest.mark.parametrize("strategy", ["single", "async", "collective"])
def test_a_second_training_is_refused_before_it_has_written_anything(holder, small_job, strategy, options):
    from clickline.launch.local.training_run import train_job

    directory = Path(small_job.output) / small_job.name
    (directory / "checkpoints" / "step-0000000001").mkdir(parents=True)
    (directory / "checkpoints" / ".writing-step-0000000002-77").mkdir()
    (directory / "result.json").write_text("{}")
    before = contents(directory)
    servers = {"async": {"pservers": 1}, "collective": {"trainers": 2}}.get(strategy, {})
    job = Job.model_validate({**small_job.model_dump(), "strategy": strategy, "cluster": servers})
    with pytest.raises(PeerError) as refused:
        train_job(job, **options)
    for said in (f"process {holder.pid} on host {socket.gethostname()}, since 20", str(directory)):
        assert said in str(refused.value)
    assert contents(directory) == before
    assert (directory / "checkpoints" / ".writing-step-0000000002-77").is_dir()


def test_a_killed_holder_does_not_hold(holder, small_job):
    directory = Path(small_job.output) / small_job.name
    holder.send_signal(signal.SIGSTOP)
    with pytest.raises(PeerError):
        RunLock(directory, role="train")
    holder.kill()
    with RunLock(directory, role="train") as lock:
        assert lock.epoch == 2


def test_a_training_that_was_stopped_replaced_and_woken_changes_nothing(criteo, tmp_path):
    """It is replaced where its lock does not reach: here, because the locked file was removed."""
    settings = {**small_settings(criteo, tmp_path), "checkpoint": {"every_steps": 5}}
    settings["train"] = {**settings["train"], "epochs": 1000}
    job = write_job(tmp_path / "job.yaml", settings)
    directory = tmp_path / "runs" / "small"
    process = start("train", job)
    while not (directory / "checkpoints" / "step-0000000010").exists():
        assert process.poll() is None, process.communicate()
    process.send_signal(signal.SIGSTOP)
    (directory / FILE).unlink()
    train_job(Job.model_validate({**settings, "train": {**settings["train"], "max_steps": 20}}), resume=True)
    after = contents(directory)
    process.send_signal(signal.SIGCONT)
    _, err = process.communicate(timeout=100)
    assert process.returncode == ReplacedError.exit_code == 9, err
    assert f"taken over by train, process {os.getpid()}" in " ".join(err.split())
    assert {name: content for name, content in contents(directory).items() if "/.writing-" not in name} == after


def test_an_overtaken_writer_does_not_replace_the_standing(tmp_path):
    """Also if the lock's file is gone: `coordinator.json` itself knows of the later writer."""
    first = RunLock(tmp_path, role="coordinator")
    file = RecordFile(first)
    file.save(RunRecord(step=1))
    (tmp_path / FILE).unlink()
    with RunLock(tmp_path, role="coordinator") as second:
        assert second.epoch == 2
        RecordFile(second).save(RunRecord(step=7))
    (tmp_path / FILE).unlink()
    with pytest.raises(ReplacedError, match="writer epoch 2"):
        file.save(RunRecord(step=2))
    assert isinstance(file.failure, ReplacedError)
    assert json.loads((tmp_path / "coordinator.json").read_text())["step"] == 7
    assert not list(tmp_path.glob(".*.new"))
    first.release()


@pytest.mark.parametrize("content", ["", '{"writer_epoch": 1, "gener', "[1]", "\0" * 100])
def test_a_standing_that_is_not_whole_is_named(tmp_path, content):
    (tmp_path / "coordinator.json").write_text(content)
    with (
        RunLock(tmp_path, role="test") as lock,
        pytest.raises(CheckpointError, match=r"coordinator\.json: not readable"),
    ):
        RecordFile(lock).read()


def test_who_takes_a_directory_clears_away_what_killed_ones_left(tmp_path):
    checkpoints = tmp_path / "checkpoints"
    for name in (".writing-step-0000000003-ab", ".removed-step-0000000001-ab", ".replaced-step-0000000002-ab"):
        (checkpoints / name).mkdir(parents=True)
        (checkpoints / name / "manifest.json").write_text(name)
    (checkpoints / "step-0000000004").mkdir()
    (checkpoints / "step-0000000004" / "manifest.json").write_text("{}")
    (tmp_path / ".coordinator.json.12ab.new").write_text("half")
    RunLock(tmp_path, role="test").release()
    assert sorted(path.name for path in checkpoints.iterdir()) == ["step-0000000002", "step-0000000004"]
    assert (checkpoints / "step-0000000002" / "manifest.json").read_text() == ".replaced-step-0000000002-ab"
    assert sorted(path.name for path in tmp_path.iterdir()) == [FILE, "checkpoints"]
