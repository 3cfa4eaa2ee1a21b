"""`clickline run` where PADDLE_PADDLEREC_ROLE is WORKER: a process of a job, as pods and ranks of MPI start it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.hosts import mpi_hosts
from support.paddlerec.submissions import ROWS, SAMPLE, write_files
from support.ports import port_range
from support.processes import ENVIRONMENT

pytestmark = pytest.mark.heavy
RUN = [sys.executable, "-m", "clickline.run", "-m", "config.yaml", "-o", "runner[0].epochs=1"]
NODE = {**ENVIRONMENT, "PADDLE_PADDLEREC_ROLE": "WORKER"}


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    place = tmp_path / "dnn"
    write_files(place)
    shutil.copytree(SAMPLE, place / "train_data")
    return place


def trained_rows(workspace: Path) -> int:
    (result,) = (workspace / "increment_dnn").glob("*/result.json")
    return int(json.loads(result.read_text())["rows"])


def test_pods_of_paddle_operator_are_a_server_and_a_trainer(workspace: Path) -> None:
    port = port_range(1)
    shared = {
        **NODE,
        "PADDLE_PSERVERS_IP_PORT_LIST": f"127.0.0.1:{port}",
        "PADDLE_TRAINERS_NUM": "1",
        "PADDLE_TRAINER_ID": "0",
        "POD_IP": "127.0.0.1",
        "PADDLE_PORT": str(port),
        "CLICKLINE_TOKEN": "for-this-test-and-no-other",
    }
    pods = [
        subprocess.Popen(RUN, cwd=workspace, env={**shared, "TRAINING_ROLE": role}, stderr=subprocess.PIPE, text=True)
        for role in ("PSERVER", "TRAINER")
    ]
    try:
        said = [pod.communicate(timeout=200)[1] for pod in pods]
    finally:
        for pod in pods:
            pod.kill()
            pod.wait()
    assert [pod.returncode for pod in pods] == [0, 0], said
    assert trained_rows(workspace) == ROWS


def test_ranks_of_mpirun_train_one_job(workspace: Path) -> None:
    if shutil.which("mpirun") is None:
        pytest.skip(mpi_hosts.unavailable())
    command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np", "2", *RUN]
    root = ["--set", f"cluster.root={workspace.parent}/jobs"]
    done = subprocess.run(
        [*command, *root], cwd=workspace, env=NODE, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    assert trained_rows(workspace) == ROWS
