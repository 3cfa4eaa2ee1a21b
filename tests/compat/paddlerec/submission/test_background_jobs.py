"""Jobs that were submitted go on by themselves, are found by their records, and are stopped by them."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.eventually import eventually
from support.hosts import mpi_hosts
from support.paddlerec.submissions import ROWS, write_files, write_logs
from support.processes import ENVIRONMENT

pytestmark = pytest.mark.heavy
SUBMIT = ("submit", "-m", "config.yaml", "-b", "backend.yaml", "--json", "--files", "./*.sh")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    write_logs(tmp_path / "store")
    write_files(tmp_path / "dnn", url=f"file://{tmp_path}/store")
    return tmp_path / "dnn"


def clickline(workspace: Path, *words: str) -> Any:
    """What a verb answers, as JSON."""
    state = str(workspace.parent / "state")
    done = subprocess.run(
        [sys.executable, "-m", "clickline", *words],
        cwd=workspace,
        env={**ENVIRONMENT, "CLICKLINE_STATE": state},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def phase(workspace: Path, job: str) -> str:
    record = json.loads((workspace.parent / "state" / f"{job}.json").read_text())
    return str(record.get("phase", "running"))


def processes_in(directory: Path) -> list[str]:
    """Those that run there, or below."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if Path(place / "cwd").resolve().is_relative_to(directory):
                found.append((place / "cmdline").read_bytes().decode(errors="replace"))
        except OSError:
            continue
    return found


def test_a_job_goes_on_when_the_command_that_submitted_it_has_ended(workspace: Path) -> None:
    gate = workspace.parent / "gate"
    (workspace / "before_hook.sh").write_text(f"while [ ! -e {gate} ]; do sleep 0.05; done\n")
    root = ("--set", f"cluster.root={workspace.parent}/jobs", "--set", "train.epochs=1")
    submitted = clickline(workspace, *SUBMIT, "--on", "local", *root)
    job = submitted["jobId"]
    assert phase(workspace, job) == "running"
    gate.touch()
    eventually(lambda: phase(workspace, job) != "running")
    record = json.loads((workspace.parent / "state" / f"{job}.json").read_text())
    assert record["phase"] == "finished", record
    assert clickline(workspace, "status", job, "--json")["rows"] == 2 * ROWS
    copied = workspace.parent / "store" / "models" / "PaddleRec_CTR" / "result.json"
    assert json.loads(copied.read_text())["rows"] == 2 * ROWS


@pytest.mark.parametrize("own_records", [True, False], ids=["rank 0 is here", "rank 0 is elsewhere"])
def test_a_job_of_mpirun_is_stopped_by_its_record(workspace: Path, own_records: bool) -> None:
    if shutil.which("mpirun") is None:
        pytest.skip(mpi_hosts.unavailable())
    began = workspace.parent / "began"
    (workspace / "before_hook.sh").write_text(f"touch {began}\nsleep 600\n")
    # Where rank 0 keeps records of its own, whoever submits has none of it but what it is told.
    records = workspace.parent / ("state" if own_records else "other")
    passed = f"-x CLICKLINE_STATE={shlex.quote(str(records))}"
    mpirun = f"mpirun --allow-run-as-root --oversubscribe --bind-to none {passed}"
    root = workspace.parent / "jobs"
    submitted = clickline(workspace, *SUBMIT, "--mpirun", mpirun, "--set", f"cluster.root={root}")
    job = submitted["jobId"]
    eventually(began.exists)
    assert (records / f"{job}.json").exists()
    stopped = clickline(workspace, "stop", job, "--json")
    assert (stopped["job"], stopped["phase"]) == (job, "stopped")
    eventually(lambda: not processes_in(root), what="the end of all processes")
