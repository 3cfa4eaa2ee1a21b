"""A run killed with SIGKILL, between saves and within one, goes on to the same bits."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from clickline.train.checkpoints import checkpoint_files
from clickline.train.checkpoints.checkpoint_inspection import difference
from support.processes import run, small_settings, start, write_job

pytestmark = pytest.mark.heavy


def settings_for(criteo, directory: Path, name: str, **train: object) -> dict[str, object]:
    settings = small_settings(criteo, directory)
    settings["name"] = name
    settings["train"] = {"batch_size": 100, "log_every": 7, "epochs": 2, **train}
    settings["checkpoint"] = {"every_steps": 10, "keep": 100}
    settings["model"] = {"name": "deepfm", "embedding_dim": 16, "hidden": [16], "dropout": 0.1}
    return settings


def lines_of(directory: Path) -> list[dict[str, object]]:
    lines = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "rows_per_second"} for line in lines]


def kill_when(process, condition) -> None:
    """SIGKILL as soon as the condition holds; fail if the process ends before it does."""
    until = time.monotonic() + 100
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until, "the moment to kill never came"
        time.sleep(0.001)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()


@pytest.mark.parametrize("staleness", [0, 1])
def test_killed_twice_and_resumed_equals_never_killed(criteo, tmp_path, staleness):
    whole = write_job(tmp_path / "whole.yaml", settings_for(criteo, tmp_path, "whole", staleness=staleness))
    done = run("train", whole)
    assert done.returncode == 0, done.stderr

    job = write_job(tmp_path / "killed.yaml", settings_for(criteo, tmp_path, "killed", staleness=staleness))
    directory = tmp_path / "runs" / "killed"
    saves = directory / "checkpoints"
    kill_when(start("train", job), (saves / "step-0000000030").exists)
    # the second time within a save: its unfinished directory is there when the process dies
    process = start("train", job, "--resume")
    kill_when(process, lambda: any(saves.glob(".writing-step-000000007*")))
    assert list(saves.glob(".writing-*")), "killed too late to be within the save"
    assert max(found.step for found in checkpoint_files.find(saves)) in (60, 70)

    finished = run("train", job, "--resume")
    assert finished.returncode == 0, finished.stderr
    assert not list(saves.glob(".writing-*")), "what the killed save left is cleaned up"
    assert lines_of(directory) == lines_of(tmp_path / "runs" / "whole")
    last, other = (
        checkpoint_files.find(saves)[-1],
        checkpoint_files.find(tmp_path / "runs" / "whole" / "checkpoints")[-1],
    )
    assert last.step == other.step
    assert difference(last, other)["same"]
    tables = [name for name in last.manifest["files"] if name.startswith("table-")]
    assert tables
    for name in tables:
        assert (last.path / name).read_bytes() == (other.path / name).read_bytes(), name


def test_interrupt_leaves_no_traceback_and_a_usable_run(criteo, tmp_path):
    job = write_job(tmp_path / "job.yaml", settings_for(criteo, tmp_path, "small", epochs=500))
    saves = tmp_path / "runs" / "small" / "checkpoints"
    process = start("train", job)
    until = time.monotonic() + 100
    while not (saves / "step-0000000020").exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert checkpoint_files.find(saves)
    assert not list(saves.glob(".writing-*"))
