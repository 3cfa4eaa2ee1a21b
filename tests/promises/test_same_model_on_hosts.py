"""Two hosts that share nothing train what one machine trains: ranks bit for bit, every other strategy as well as it."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clickline.train.checkpoints import checkpoint_files
from clickline.train.checkpoints.checkpoint_files import Checkpoint
from support.eventually import eventually
from support.hosts.mpi_hosts import MpiHosts, unavailable
from support.hosts.ssh_hosts import SshHosts, ssh_hosts
from support.made_once import made_once
from support.processes import run, write_job
from support.training.checkpoint_bits import bits

pytestmark = pytest.mark.heavy
NOISE = 0.03
"""Difference of AUC: of 1,500 rows, and of strategies in which trainers do not wait for each other."""


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory, criteo: dict[str, str]) -> Iterator[MpiHosts]:
    if why := unavailable():
        pytest.skip(why)
    with ssh_hosts(tmp_path_factory.mktemp("ssh") / "hosts") as both:
        yield MpiHosts(both, criteo)


def settings(**changes: Any) -> dict[str, Any]:
    return {
        "seed": 5,
        "data": {"train": ["train.tsv"], "test": ["test.tsv"], "shuffle_rows": 1000},
        "model": {"name": "deepfm", "embedding_dim": 4, "hidden": [16]},
        "train": {"batch_size": 100, "log_every": 7, "epochs": 2},
        "strategy": "collective",
        "cluster": {"trainers": 2, "piece_bytes": 100_000, "threads": 1, "root": "jobs"},
        **changes,
    }


def ssh_job(hosts: SshHosts, place: Path, content: dict[str, Any]) -> Path:
    """The same job for ssh: data is below the directory of jobs, which is `private` on each host."""
    addresses = {"one": hosts.network.one.address, "other": hosts.network.other.address}
    entries = [{"host": name, "address": address, "python": sys.executable} for name, address in addresses.items()]
    data = {**content["data"], "train": ["../train.tsv"], "test": ["../test.tsv"]}
    cluster = {**content["cluster"], "hosts": entries, "root": str(hosts.private)}
    (place / "workspace").mkdir(exist_ok=True)
    return write_job(place / "workspace" / "job.yaml", {**content, "data": data, "cluster": cluster})


def near(directory: Path, criteo: dict[str, str]) -> None:
    """The run on this machine that others are compared with."""
    content = settings(name="near", output=str(directory))
    content["data"] |= {"train": [criteo["train"]], "test": [criteo["test"]]}
    done = run("train", write_job(directory / "job.yaml", content), "--json")
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def one_machine(criteo: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_once(tmp_path_factory, "two-ranks", lambda directory: near(directory, criteo)) / "near"


def checkpoints_on_first(hosts: SshHosts, name: str, place: Path) -> list[Checkpoint]:
    return checkpoint_files.find(hosts.fetch("one", f"{hosts.private}/runs/{name}", place) / "checkpoints")


@pytest.mark.parametrize("launcher", ["ssh", "mpi"])
def test_ranks_on_two_hosts_train_the_model_of_two_ranks_on_one(hosts, one_machine, tmp_path, launcher):
    content = settings(name=launcher)
    if launcher == "ssh":
        far = hosts.hosts.run("train", ssh_job(hosts.hosts, tmp_path, content), "--on", "ssh", "--json")
    else:
        hosts.write_job(content)
        far = hosts.run("--json", ranks=2, hosts="one,other")
    assert far.returncode == 0, far.stdout + far.stderr
    result = json.loads(far.stdout)
    assert (result["rows"], result["host"]) == (2 * 4500, "one")
    assert hosts.idle()
    there = checkpoints_on_first(hosts.hosts, launcher, tmp_path / "fetched")
    here = checkpoint_files.find(one_machine / "checkpoints")
    assert [c.step for c in there] == [c.step for c in here]
    assert bits(there[-1]) == bits(here[-1])
    assert result["test"] == json.loads((one_machine / "result.json").read_text())["test"]
    # What the other host has written of checkpoints is on the first one alone.
    assert b"runs" not in hosts.hosts.on("other", f"ls {hosts.hosts.private}")


@pytest.mark.parametrize("strategy", ["async", "half_async", "geo"])
def test_strategies_with_servers_on_two_hosts_reach_the_auc_of_one_machine(hosts, one_machine, tmp_path, strategy):
    job = ssh_job(hosts.hosts, tmp_path, settings(name=strategy, strategy=strategy))
    far = hosts.hosts.run("train", job, "--on", "ssh", "--json")
    assert far.returncode == 0, far.stderr
    expected = json.loads((one_machine / "result.json").read_text())["test"]["auc"]
    assert json.loads(far.stdout)["test"]["auc"] == pytest.approx(expected, abs=NOISE)


def test_a_killed_rank_ends_the_job_and_what_is_resumed_stops_with_a_checkpoint_of_all_ranks(hosts, tmp_path):
    content = settings(name="hit", checkpoint={"every_steps": 20})
    content["train"] = {"batch_size": 10, "log_every": 20, "epochs": 500}
    job = ssh_job(hosts.hosts, tmp_path, content)
    first = hosts.hosts.start("train", job, "--on", "ssh", "--json")
    eventually(lambda: hosts.has_checkpoint("hit"), process=first)
    hosts.hosts.kill("other", "train")
    said = "".join(first.communicate(timeout=120))
    assert first.returncode == 7
    assert "trainer.1 failed, killed by SIGKILL" in said or "rank 1 gone without a word" in said
    eventually(hosts.idle)

    again = hosts.hosts.start("train", job, "--on", "ssh", "--resume", "--json")
    record = f"cat {hosts.hosts.private}/runs/hit/metrics.jsonl"
    before = hosts.hosts.on("one", record).count(b"\n")
    eventually(lambda: hosts.hosts.on("one", record).count(b"\n") > before + 2, process=again)
    again.send_signal(signal.SIGINT)
    again.communicate(timeout=120)
    assert again.returncode == 130
    eventually(hosts.idle)
    status = json.loads(hosts.clickline("status", "runs/hit", "--json", "|| true"))
    assert "nothing is lost" in json.dumps(status)
    newest = checkpoints_on_first(hosts.hosts, "hit", tmp_path / "fetched")[-1]
    checkpoint_files.verify(newest)
