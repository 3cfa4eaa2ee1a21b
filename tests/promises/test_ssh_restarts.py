"""What a launcher over ssh starts again goes on with its run, in the first seconds and in the last."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.eventually import eventually
from support.hosts.random_host_faults import ROWS, job_on_hosts
from support.hosts.ssh_hosts import SshHosts, ssh_hosts, unavailable
from support.processes import write_job

pytestmark = pytest.mark.heavy


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[SshHosts]:
    if why := unavailable():
        pytest.skip(why)
    with ssh_hosts(tmp_path / "ssh") as both:
        yield both


def job(hosts: SshHosts, directory: Path) -> Path:
    (directory / "workspace").mkdir()
    return write_job(
        directory / "workspace" / "job.yaml", job_on_hosts(hosts, directory, strategy="async", seed=1, epochs=2)
    )


def text(hosts: SshHosts, name: str) -> bytes:
    """Of a file of the run; empty if it is not there."""
    return hosts.on("one", f"cat {hosts.private}/jobs/runs/random/{name} 2> /dev/null || true")


def has_checkpoint(hosts: SshHosts) -> bool:
    return b"step-" in hosts.on("one", f"ls {hosts.private}/jobs/runs/random/checkpoints 2> /dev/null || true")


def test_a_killed_coordinator_that_was_to_start_over_takes_its_run_up(hosts, tmp_path):
    launcher = hosts.start("train", job(hosts, tmp_path), "--on", "ssh", "--fresh", "--json")
    eventually(lambda: has_checkpoint(hosts), process=launcher, seconds=120)
    os.kill(hosts.pid("one", "coordinator"), signal.SIGKILL)
    out, err = launcher.communicate(timeout=240)
    assert launcher.returncode == 0, (out, err)
    result = json.loads(out)
    assert result["rows"] == 2 * ROWS + result["repeated_rows"]
    log = hosts.run("logs", result["job"], "coordinator.0", "-n", "10000").stdout
    assert "taking up the run where the coordinator before stood" in log


def test_a_connection_that_is_lost_when_the_run_has_finished_fails_nothing(hosts, tmp_path):
    launcher = hosts.start("train", job(hosts, tmp_path), "--on", "ssh", "--json")
    eventually(lambda: has_checkpoint(hosts), process=launcher, seconds=120)
    runner = hosts.runner("one")
    # It tells the launcher nothing from here on, and its processes go on.
    os.kill(runner, signal.SIGSTOP)
    eventually(lambda: b'"phase": "finished"' in text(hosts, "coordinator.json"), seconds=120)
    os.kill(runner, signal.SIGKILL)
    out, err = launcher.communicate(timeout=240)
    assert launcher.returncode == 0, (out, err)
    result = json.loads(out)
    assert result["rows"] == 2 * ROWS + result["repeated_rows"]
    eventually(lambda: not hosts.processes("one") and not hosts.processes("other"), seconds=60)
