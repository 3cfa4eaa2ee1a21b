"""Ranks that mpirun starts on two hosts train one model; the hosts share nothing but the network."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clickline.train.checkpoints import checkpoint_files
from support.eventually import eventually
from support.hosts.mpi_hosts import MpiHosts, unavailable
from support.hosts.ssh_hosts import ssh_hosts
from support.processes import run, write_job
from support.training.checkpoint_bits import bits

pytestmark = pytest.mark.heavy
ROWS = 4500


@pytest.fixture
def hosts(tmp_path: Path, criteo: dict[str, str]) -> Iterator[MpiHosts]:
    if why := unavailable():
        pytest.skip(why)
    with ssh_hosts(tmp_path / "ssh") as both:
        yield MpiHosts(both, criteo)


def settings(**changes: Any) -> dict[str, Any]:
    return {
        "name": "ranks",
        "seed": 5,
        "data": {"train": ["train.tsv"], "test": ["test.tsv"], "shuffle_rows": 1000},
        "model": {"name": "deepfm", "embedding_dim": 4, "hidden": [16]},
        "train": {"batch_size": 100, "log_every": 7, "epochs": 2},
        "strategy": "sync",
        "cluster": {"root": "jobs", "piece_bytes": 100_000, "threads": 1},
        **changes,
    }


def long_settings(name: str) -> dict[str, Any]:
    """A job that takes a while, with checkpoints on the way."""
    content = settings(name=name, strategy="async", checkpoint={"every_steps": 200})
    content["train"] = {"batch_size": 10, "log_every": 20, "epochs": 500}
    content["cluster"] |= {"heartbeat": 0.3, "deadline": 2.0, "warn_after": 1.5}
    return content


def test_four_ranks_train_the_model_that_one_machine_trains(hosts, criteo, tmp_path):
    hosts.write_job(settings())
    far = hosts.run("--json")
    assert far.returncode == 0, far.stdout + far.stderr
    result = json.loads(far.stdout)  # of one rank: more would not be JSON
    assert (result["rows"], result["host"]) == (2 * ROWS, "one")
    assert hosts.idle()

    near = settings(
        output=str(tmp_path / "near"), cluster={"pservers": 2, "trainers": 2, "piece_bytes": 100_000, "threads": 1}
    )
    near["data"] |= {"train": [criteo["train"]], "test": [criteo["test"]]}
    done = run("train", write_job(tmp_path / "near.yaml", near), "--json")
    assert done.returncode == 0, done.stderr
    fetched = hosts.hosts.fetch("one", f"{hosts.hosts.private}/runs/ranks", tmp_path / "fetched")
    here = checkpoint_files.find(tmp_path / "near" / "ranks" / "checkpoints")
    there = checkpoint_files.find(fetched / "checkpoints")
    assert [c.step for c in there] == [c.step for c in here]
    assert bits(there[-1]) == bits(here[-1])

    # One process a rank, but for the coordinator; each rank's logs are where it ran.
    logs = [
        hosts.hosts.on(host, f"cd {hosts.hosts.private}/jobs/{result['job']} && ls -d rank-*/log/*").decode().split()
        for host in ("one", "other")
    ]
    assert logs == [
        ["rank-0/log/coordinator.0.log", "rank-0/log/pserver.0.log", "rank-1/log/trainer.0.log"],
        ["rank-2/log/pserver.1.log", "rank-3/log/trainer.1.log"],
    ]
    # By its record, on the host of rank 0.
    [entry] = json.loads(hosts.clickline("jobs", "--json"))
    assert (entry["launcher"], entry["phase"]) == ("mpi", "finished")
    assert json.loads(hosts.clickline("status", result["job"], "--json"))["rows"] == 2 * ROWS
    lines = hosts.clickline("logs", result["job"], "pserver.1", "-n", "1000").splitlines()
    assert lines and all(line.startswith("other/2 pserver.1: ") for line in lines)


def test_a_killed_server_is_started_again_a_killed_rank_ends_all_and_what_is_resumed_stops_with_a_checkpoint(hosts):
    hosts.write_job(long_settings("hit"))
    process = hosts.start("--json", ranks=2, hosts="one,other")
    eventually(lambda: hosts.has_checkpoint("hit"), process=process, seconds=120)
    before = hosts.hosts.kill("other", "pserver")
    eventually(lambda: hosts.hosts.pid("other", "pserver") not in (0, before), process=process, seconds=60)
    hosts.kill_rank("other", "pserver")
    process.communicate(timeout=60)
    assert process.returncode != 0
    eventually(hosts.idle, seconds=30)

    jobs = f"{hosts.hosts.private}/jobs"
    known = hosts.hosts.on("one", f"ls {jobs}").decode().strip()
    # Ctrl+C reaches mpirun, which waits so many seconds before it kills its ranks.
    patient = ("--mca", "odls_base_sigkill_timeout", "10")
    again = hosts.start("--resume", "--json", ranks=2, hosts="one,other", options=patient)
    newest = f"$(ls -d {jobs}/JOB* | grep -v {known} || echo {jobs}/none)"
    log = f"cat {newest}/rank-0/log/coordinator.0.log 2> /dev/null || true"
    eventually(lambda: hosts.hosts.on("one", log).count(b"  step ") > 1, process=again, seconds=120)
    again.send_signal(signal.SIGINT)
    again.communicate(timeout=90)
    assert again.returncode != 0
    eventually(hosts.idle, seconds=30)
    assert json.loads(hosts.clickline("jobs", "--json"))[-1]["phase"] == "stopped"
    status = json.loads(hosts.clickline("status", "runs/hit", "--json", "|| true"))
    assert "nothing is lost" in json.dumps(status)


def test_where_mpirun_lets_it_a_run_goes_on_without_a_trainer_but_not_without_a_server(hosts):
    content = long_settings("lost")
    content["cluster"] |= {"evict_after": 3}
    hosts.write_job(content)
    # Rank 2, the second one on the other host, has a trainer and nothing else.
    process = hosts.start("--json", ranks=3, hosts="one:1,other:2", options=("--enable-recovery",))
    eventually(lambda: hosts.has_checkpoint("lost"), process=process, seconds=120)
    hosts.kill_rank("other", "trainer")
    log = f"cat {hosts.hosts.private}/jobs/*/rank-0/log/coordinator.0.log"
    # An epoch ends only when what the lost trainer had was trained by the other one.
    eventually(lambda: b"epoch 2/500" in hosts.hosts.on("one", log), process=process, seconds=120)
    hosts.kill_rank("other", "pserver")
    # Not by mpirun: with this option it says nothing of how its ranks ended, and may wait for those that were killed.
    eventually(hosts.idle, seconds=60)
    [entry] = json.loads(hosts.clickline("jobs", "--json"))
    assert entry["phase"] == "failed"
    assert "rank 1 on other/1 is gone" in entry["reason"]
    assert "parameter servers ran there; start the job again with --resume" in entry["reason"]


def test_ranks_that_cannot_train_one_job_are_named_and_nothing_is_started(hosts):
    hosts.write_job(settings(cluster={"root": "/proc/nowhere"}))
    refused = hosts.run(ranks=2, hosts="one,other")
    assert refused.returncode == 7, refused.stderr
    for rank, host in enumerate(("one", "other")):
        assert refused.stderr.count(f"rank {rank} on {host}: ") == 1
    assert hosts.idle()
