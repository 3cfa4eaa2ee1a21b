"""A disk that is full while a run writes: it is said, nothing half counts as whole, and with room again it goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from clickline import train_job
from clickline.config import Job
from clickline.errors import CheckpointError
from clickline.train.checkpoints import checkpoint_files
from clickline.train.checkpoints.checkpoint_inspection import difference
from support.processes import run as run_verb
from support.processes import small_settings, start, write_job

pytestmark = pytest.mark.heavy
MEBIBYTES = 48


@pytest.fixture
def small_disk(tmp_path):
    """A file system of its own, for root."""
    if os.geteuid() != 0:
        pytest.skip("a small tmpfs is mounted for this, which only root can")
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={MEBIBYTES}m", "tmpfs", str(place)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip(f"a small tmpfs cannot be mounted: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(disk: Path) -> None:
    """To the last byte."""
    with (disk / "filler").open("wb", buffering=0) as filler:
        try:
            while True:
                filler.write(b"\0" * (1 << 16))
        except OSError:
            return


def fill_after(monkeypatch: pytest.MonkeyPatch, disk: Path, *, step: int) -> None:
    """The disk is full as soon as the checkpoint of this step is written."""
    write = checkpoint_files.write

    def write_then_fill(directory: Path, **facts: Any) -> checkpoint_files.Checkpoint:
        written = write(directory, **facts)
        if written.step == step:
            fill(disk)
        return written

    monkeypatch.setattr(checkpoint_files, "write", write_then_fill)


@pytest.mark.parametrize("hit", ["checkpoint", "metrics"])
def test_one_process_says_it_and_goes_on_to_the_same_bits(criteo, tmp_path, small_disk, monkeypatch, hit):
    settings = small_settings(criteo, small_disk)
    metrics = hit == "metrics"
    settings["train"] = {"batch_size": 100, "log_every": 1 if metrics else 10_000, "epochs": 2}
    settings["checkpoint"] = {"every_steps": 0 if metrics else 20, "every_epochs": 1, "keep": 2}
    settings["data"] = {**settings["data"], "test": []}
    job = Job.model_validate(settings)
    saves = small_disk / "runs" / "small" / "checkpoints"
    fill_after(monkeypatch, small_disk, step=45 if metrics else 20)
    with pytest.raises(CheckpointError, match=f"{hit}.*cannot be written.*No space left.*--resume continues"):
        train_job(job)
    monkeypatch.undo()
    left = checkpoint_files.find(saves)
    assert left
    for checkpoint in left:
        checkpoint_files.verify(checkpoint)
    (small_disk / "filler").unlink()
    resumed = train_job(job, resume=True)
    whole = train_job(Job.model_validate({**settings, "output": str(tmp_path / "runs")}))
    assert difference(checkpoint_files.read(resumed.checkpoint), checkpoint_files.read(whole.checkpoint))["same"]


@pytest.mark.parametrize("every_steps", [20, 0], ids=["checkpoint", "standing"])
def test_servers_and_coordinator_say_it_and_go_on(criteo, small_disk, every_steps):
    settings = small_settings(criteo, small_disk)
    settings["checkpoint"] = {"every_steps": every_steps, "every_epochs": 1, "keep": 2}
    settings["train"] = {"batch_size": 20, "log_every": 100_000, "epochs": 3}
    settings["data"] = {**settings["data"], "test": []}
    settings |= {"strategy": "async", "cluster": {"pservers": 1, "trainers": 1, "piece_bytes": 10_000}}
    job = write_job(small_disk.parent / "job.yaml", settings)
    directory = small_disk / "runs" / "small"
    process = start("train", job)
    until = time.monotonic() + 100
    while not list((directory / "checkpoints").glob("step-*")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until, "no checkpoint was written"
        time.sleep(0.005)
    process.send_signal(signal.SIGSTOP)  # the coordinator, which is nearly always between two leases
    fill(small_disk)
    process.send_signal(signal.SIGCONT)
    _, err = process.communicate(timeout=100)
    assert process.returncode == CheckpointError.exit_code, err
    said = " ".join(err.split())
    assert "cannot be written" in said
    assert "No space left" in said
    for checkpoint in checkpoint_files.find(directory / "checkpoints"):
        checkpoint_files.verify(checkpoint)
    (small_disk / "filler").unlink()
    done = run_verb("train", job, "--resume", "--json")
    assert done.returncode == 0, done.stdout
    assert f'"rows": {3 * 4500}' in done.stdout
