"""The command that the runner of the first host runs at each checkpoint."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from clickline.launch.hosts.checkpoint_command import HELD, CheckpointCommand
from clickline.launch.hosts.host_messages import HostPlan
from support.eventually import eventually


def plan(tmp_path: Path, *arguments: str) -> HostPlan:
    (tmp_path / "run" / "checkpoints").mkdir(parents=True, exist_ok=True)
    return HostPlan(
        job="JOB1",
        node=0,
        directory=str(tmp_path),
        job_file="job.yaml",
        processes=[],
        output=str(tmp_path / "run"),
        at_checkpoints=list(arguments),
    )


def checkpoint(tmp_path: Path, step: int) -> Path:
    place = tmp_path / "run" / "checkpoints" / f"step-{step:010d}"
    place.mkdir()
    (place / "manifest.json").write_text("not a manifest")
    return place


def test_a_checkpoint_is_held_until_the_command_has_ended_and_its_failure_is_told(tmp_path: Path) -> None:
    told: list[tuple[str, str]] = []
    held = tmp_path / "run" / HELD
    command = CheckpointCommand(plan(tmp_path, "rows", "to-v1", str(held)), report=lambda *news: told.append(news))
    command.poll()
    assert not held.exists(), "there is none yet"
    place = checkpoint(tmp_path, 1)
    command.poll()
    # The run may drop it from now on.
    (place / "manifest.json").unlink()
    place.rmdir()
    assert (held / "checkpoints" / place.name / "manifest.json").read_text() == "not a manifest"
    command.finish(until=lambda seconds: False)
    assert [name for name, _ in told] == ["rows_to_v1.0"]
    assert "exit code 6: " in told[0][1] and "unreadable" in told[0][1]
    command.poll()
    command.stop()
    assert len(told) == 1, "it is not run again for the same one"
    assert not held.exists()


def test_a_command_that_is_stopped_is_gone(tmp_path: Path) -> None:
    command = CheckpointCommand(
        plan(tmp_path, "fileserver", str(tmp_path), "--port", "0"), report=lambda *news: pytest.fail(str(news))
    )
    checkpoint(tmp_path, 1)
    command.poll()
    pid = command._process.pid
    assert pid is not None
    log = next((tmp_path / "log").iterdir())
    eventually(lambda: len(log.read_text().splitlines()) > 1, what="the command's first line")
    command.stop()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_plan_without_a_command_holds_nothing(tmp_path: Path) -> None:
    command = CheckpointCommand(plan(tmp_path), report=lambda *news: pytest.fail(str(news)))
    checkpoint(tmp_path, 1)
    command.poll()
    command.finish(until=lambda seconds: False)
    command.stop()
    assert not (tmp_path / "run" / HELD).exists()
