"""How a run begins is carried out once: a process that is started again under the same name goes on instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from clickline.ps.coordinator.coordinator_run import RunBeginning, beginning_of
from clickline.ps.coordinator.state.record import RecordFile, RunRecord
from clickline.ps.process_role import ProcessRole
from clickline.train.run_files.run_lock import RunLock


def server_0(directory: Path, *, launch: str = "JOB1") -> ProcessRole:
    return ProcessRole(
        role="pserver",
        rank=0,
        pservers=["tcp:127.0.0.1:6174"],
        trainers=1,
        coordinator="tcp:127.0.0.1:7174",
        token=b"token",
        bind="tcp:127.0.0.1:6174",
        directory=directory,
        launch=launch,
        hosts_coordinator=True,
    )


def leave(directory: Path, *, phase: str, checkpoint: str | None = "/c", launch: str = "JOB1") -> None:
    """What a coordinator before has left."""
    with RunLock(directory, role="coordinator") as lock:
        RecordFile(lock).save(RunRecord(phase=phase, checkpoint=checkpoint, launch=launch))


@pytest.mark.parametrize(
    ("phase", "checkpoint", "beginning"),
    [
        ("training", "/c", RunBeginning()),
        ("interrupted", "/c", RunBeginning(resume=True)),
        ("failed", "/c", RunBeginning(resume=True)),
        ("failed", None, RunBeginning()),
        ("finished", "/c", None),
    ],
)
def test_the_same_start_does_not_begin_twice(
    tmp_path: Path, phase: str, checkpoint: str | None, beginning: RunBeginning | None
) -> None:
    leave(tmp_path, phase=phase, checkpoint=checkpoint)
    assert beginning_of(server_0(tmp_path), resume=False, fresh=True, warm_start="/weights") == beginning


@pytest.mark.parametrize("launch", ["JOB2", ""])
def test_another_start_begins_as_it_is_told(tmp_path: Path, launch: str) -> None:
    leave(tmp_path, phase="finished")
    begun = beginning_of(server_0(tmp_path, launch=launch), resume=False, fresh=True, warm_start="/weights")
    assert begun == RunBeginning(fresh=True, warm_start=Path("/weights"))
    resumed = beginning_of(server_0(tmp_path, launch=launch), resume="/c/step-4", fresh=False, warm_start=None)
    assert resumed == RunBeginning(resume=Path("/c/step-4"))
