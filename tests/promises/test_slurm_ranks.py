"""Ranks that srun starts train a model. Skipped where there is no Slurm."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.eventually import eventually
from support.hosts.slurm_host import SlurmHost, slurm_host, unavailable
from support.processes import small_settings, write_job

pytestmark = pytest.mark.heavy
TRAIN = (sys.executable, "-m", "clickline", "train", "job.yaml", "--on", "mpi")


@pytest.fixture
def host(tmp_path: Path) -> Iterator[SlurmHost]:
    if why := unavailable():
        pytest.skip(why)
    with slurm_host(tmp_path / "slurm") as one:
        yield one


def job(host: SlurmHost, criteo: dict[str, str], **changes: Any) -> None:
    settings = {**small_settings(criteo, host.directory), "strategy": "sync", **changes}
    write_job(host.directory / "job.yaml", {**settings, "cluster": {"root": "jobs-of-ranks", "threads": 1}})


def test_srun_trains_and_without_pmix_says_what_to_add(host, criteo):
    job(host, criteo)
    done = host.run("srun", "--mpi=pmix", "-n", "2", *TRAIN, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows"] == 4500
    [entry] = json.loads(host.run(sys.executable, "-m", "clickline", "jobs", "--json").stdout)
    assert (entry["launcher"], entry["phase"], len(entry["hosts"])) == ("mpi", "finished", 2)
    refused = host.run("srun", "-n", "2", *TRAIN)
    assert refused.returncode == 3
    assert "add --mpi=pmix" in refused.stderr
    # A job that rank 0 cannot read: it alone says so, and the other rank does not wait for it.
    absent = host.run("srun", "--mpi=pmix", "-n", "2", *TRAIN[:-3], "absent.yaml", "--on", "mpi", seconds=60)
    assert absent.returncode == 3
    assert absent.stderr.count("no such file") == 1


def test_stop_leaves_a_last_checkpoint_and_no_process(host, criteo):
    job(host, criteo, train={"batch_size": 10, "epochs": 50, "log_every": 20})
    before = len(host.pids())
    process = host.start("srun", "--mpi=pmix", "-n", "2", *TRAIN, "--json")
    log = host.directory / "jobs-of-ranks"
    eventually(
        lambda: any("epoch 1  step" in file.read_text() for file in log.glob("*/rank-0/log/coordinator.0.log")),
        process=process,
    )
    stopped = host.run(sys.executable, "-m", "clickline", "stop", "small")
    assert stopped.returncode == 0, stopped.stderr
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert list((host.directory / "runs" / "small" / "checkpoints").glob("step-*"))
    eventually(lambda: len(host.pids()) <= before, seconds=30)
