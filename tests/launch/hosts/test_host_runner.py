"""A host's runner as a process: what its launcher hears at the end, and what it does not hear."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from clickline.launch.hosts.host_messages import (
    HostPlan,
    RunnerDone,
    RunnerEvent,
    RunnerStarted,
    SignOfLife,
    StopCommand,
    event_of,
    line_of,
)


@contextmanager
def runner(place: Path, *, silence: float) -> Iterator[subprocess.Popen[bytes]]:
    """A runner without processes to run, which waits for the word that all hosts are prepared."""
    plan = HostPlan(
        job="JOB1", node=0, directory=str(place), job_file="", processes=[], awaits_start=True, silence=silence
    )
    command = [sys.executable, "-m", "clickline.launch.hosts.host_runner"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin is not None
        process.stdin.write(line_of(plan))
        process.stdin.flush()
        yield process


def heard(process: subprocess.Popen[bytes]) -> list[type[RunnerEvent]]:
    """Types of all events until the runner closes its output."""
    assert process.stdout is not None
    return [type(event_of(line)) for line in process.stdout]


def test_a_runner_that_was_told_to_stop_says_that_it_is_done(tmp_path: Path) -> None:
    with runner(tmp_path, silence=60) as process:
        assert process.stdin is not None
        process.stdin.write(line_of(SignOfLife()) + line_of(StopCommand()))
        process.stdin.flush()
        assert heard(process)[-1] is RunnerDone
        assert process.wait(60) == 0


@pytest.mark.parametrize("way", ["silent", "closed"])
def test_a_runner_that_has_lost_its_launcher_does_not_say_that_it_is_done(tmp_path: Path, way: str) -> None:
    # A cable may be back at the moment at which the runner gives up. A launcher that then heard "done" would never
    # start the processes again.
    with runner(tmp_path, silence=0.3 if way == "silent" else 60) as process:
        assert process.stdin is not None and process.stderr is not None
        if way == "closed":
            process.stdin.close()
        events = heard(process)
        assert RunnerDone not in events and RunnerStarted not in events
        assert b"JOB1: the launcher was not heard any more" in process.stderr.read()
        assert process.wait(60) == 1
    assert not (tmp_path / "runner.pid").exists()


def test_a_message_that_cannot_be_read_counts_as_a_lost_launcher(tmp_path: Path) -> None:
    with runner(tmp_path, silence=60) as process:
        assert process.stdin is not None
        process.stdin.write(msgspec.json.encode({"type": "unknown"}) + b"\n")
        process.stdin.flush()
        assert RunnerDone not in heard(process)
        assert process.wait(60) == 1
