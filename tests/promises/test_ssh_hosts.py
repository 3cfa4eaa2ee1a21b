"""Two hosts that share nothing but the network train one model, started over ssh from a third place."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clickline.train.checkpoints import checkpoint_files
from support.eventually import eventually
from support.hosts.held_data import hold
from support.hosts.ssh_hosts import SshHosts, ssh_hosts, unavailable
from support.processes import run, write_job
from support.training.checkpoint_bits import bits

pytestmark = pytest.mark.heavy


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[SshHosts]:
    if why := unavailable():
        pytest.skip(why)
    with ssh_hosts(tmp_path / "ssh") as both:
        yield both


def settings(hosts: SshHosts, criteo: dict[str, str], **changes: Any) -> dict[str, Any]:
    one, other = hosts.network.one.address, hosts.network.other.address
    return {
        "name": "far",
        "seed": 5,
        "data": {"train": [criteo["train"]], "test": [criteo["test"]], "shuffle_rows": 1000},
        "model": {"name": "deepfm", "embedding_dim": 4, "hidden": [16]},
        "train": {"batch_size": 100, "log_every": 7, "epochs": 2},
        "strategy": "sync",
        "cluster": {
            "hosts": [
                {"host": "one", "address": one, "python": sys.executable},
                {"host": "other", "address": other, "python": sys.executable},
            ],
            "root": str(hosts.private / "jobs"),
            "piece_bytes": 100_000,
        },
        **changes,
    }


def job(tmp_path: Path, content: dict[str, Any]) -> Path:
    workspace = tmp_path / "workspace"
    workspace.mkdir(exist_ok=True)
    (workspace / "notes.txt").write_text("sent to the hosts\n")
    return write_job(workspace / "job.yaml", content)


def test_two_hosts_train_the_model_that_one_machine_trains(hosts, criteo, tmp_path):
    content = settings(hosts, criteo)
    far = hosts.run("train", job(tmp_path, content), "--on", "ssh", "--json")
    assert far.returncode == 0, far.stderr
    result = json.loads(far.stdout)
    assert result["rows"] == 2 * 4500
    assert result["host"] == "one"

    directory = f"{hosts.private}/jobs/runs/far"
    fetched = hosts.fetch("one", directory, tmp_path / "fetched")
    near = {
        **content,
        "output": str(tmp_path / "near"),
        "cluster": {"pservers": 2, "trainers": 2, "piece_bytes": 100_000},
    }
    done = run("train", write_job(tmp_path / "near.yaml", near), "--json")
    assert done.returncode == 0, done.stderr
    here = checkpoint_files.find(tmp_path / "near" / "far" / "checkpoints")
    there = checkpoint_files.find(fetched / "checkpoints")
    assert [c.step for c in there] == [c.step for c in here]
    assert bits(there[-1]) == bits(here[-1])

    # Nothing of the run is on the other host, and the job's directory is on both.
    assert b"runs" not in hosts.on("other", f"ls {hosts.private}/jobs")
    for node, name in enumerate(("one", "other")):
        place = f"{hosts.private}/jobs/{result['job']}"
        assert hosts.on(name, f"cat {place}/nodefile {place}/notes.txt") == f"{node}\nsent to the hosts\n".encode()
        assert hosts.processes(name) == []

    # By its record, from where it was started.
    status = json.loads(hosts.run("status", result["job"], "--json").stdout)
    assert (status["job"], status["phase"], status["rows"]) == ("far", "finished", 2 * 4500)
    lines = hosts.run("logs", result["job"], "pserver.1", "-n", "1000").stdout.splitlines()
    assert lines and all(line.startswith("other pserver.1: ") for line in lines)


def test_what_two_hosts_have_trained_is_published_and_served_on_the_first(hosts, criteo, tmp_path):
    far = hosts.run("train", job(tmp_path, settings(hosts, criteo)), "--on", "ssh", "--json")
    assert far.returncode == 0, far.stderr
    clickline = f"cd {hosts.private}/jobs && {sys.executable} -m clickline"
    version = json.loads(hosts.on("one", f"{clickline} publish runs/far --to versions --json"))
    assert version["version"] == 1
    # `up` finds that the run has finished, publishes it for itself, and answers from a cube.
    served = json.loads(hosts.on("one", f"{clickline} up runs/far/job.json --once --port 0 --json"))
    assert served["training"] == "kept"
    assert served["served"]["auc"] == pytest.approx(json.loads(far.stdout)["test"]["auc"], abs=1e-5)
    assert served["served"]["versions"] == [1]


def test_ctrl_c_leaves_nothing_on_either_host(hosts, criteo, tmp_path):
    content = settings(hosts, criteo, train={"batch_size": 10, "log_every": 7, "epochs": 500})
    process = hosts.start("train", job(tmp_path, content), "--on", "ssh", "--json")
    eventually(lambda: all(len(hosts.processes(name)) >= 3 for name in ("one", "other")), process=process)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    eventually(lambda: not hosts.processes("one") and not hosts.processes("other"), seconds=30)


def long_job(hosts: SshHosts, criteo: dict[str, str], name: str, **changes: Any) -> dict[str, Any]:
    """One with checkpoints on the way, and heartbeats by which faults are found soon."""
    content = settings(hosts, criteo, name=name, strategy="async", **changes)
    content["train"] = {"batch_size": 10, "log_every": 20, "epochs": 2}
    content["checkpoint"] = {"every_steps": 100}
    content["cluster"] |= {"heartbeat": 0.3, "deadline": 2.0, "warn_after": 1.5, "evict_after": 60}
    return content


def has_checkpoint(hosts: SshHosts, name: str) -> bool:
    return b"step-" in hosts.on("one", f"ls {hosts.private}/jobs/runs/{name}/checkpoints 2> /dev/null || true")


def test_a_server_is_killed_and_comes_back_with_its_checkpoint_and_a_host_is_cut_off_and_back(hosts, criteo, tmp_path):
    data, content = hold(criteo["train"], tmp_path / "data"), long_job(hosts, criteo, "hit")
    content["data"] |= data.settings
    process = hosts.start("train", job(tmp_path, content), "--on", "ssh", "--json")
    eventually(lambda: has_checkpoint(hosts, "hit"), process=process)
    before = hosts.kill("other", "pserver")
    eventually(lambda: hosts.pid("other", "pserver") not in (0, before), process=process)
    hosts.network.cut()
    status = f"{hosts.private}/jobs/runs/hit/status.json"
    eventually(lambda: b'"slow"' in hosts.on("one", f"cat {status}"), process=process)
    hosts.network.mend()
    data.let_go()
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    result = json.loads(out)
    assert result["rows"] - result["repeated_rows"] == 2 * 4500
    assert "pserver.1 came back" in result["faults"]
    log = hosts.on("other", f"cat {hosts.private}/jobs/{result['job']}/log/pserver.1.log").decode()
    assert "copy-step-" in log, "it was fetched from the coordinator"


def test_each_host_trains_its_own_files_and_a_killed_trainer_is_replaced_there(hosts, criteo, tmp_path):
    """The same paths on both hosts, below the directory of jobs: 1,750 rows on one, 2,750 on the other."""
    data, place = hold(criteo["train"], tmp_path / "data"), f"{hosts.private}/jobs/train_data"
    for name, part in zip(("one", "other"), data.free, strict=True):
        hosts.on(name, f"mkdir -p {place} && cp {part} {place}/part-0.tsv")
    hosts.on("other", f"cp {data.held} {place}/")
    hosts.on("one", f"cp {criteo['test']} {hosts.private}/jobs/test.tsv")
    content = long_job(hosts, criteo, "own")
    # The job's directory is JOB<time> there, and where processes run.
    content["data"] |= {"placement": "node", "train": ["../train_data/*.tsv"], "test": ["../test.tsv"]}
    content["data"]["pipe_command"] = data.pipe_command
    content["train"]["epochs"] = 1
    content["cluster"]["hosts"][1]["pservers"] = 0
    process = hosts.start("train", job(tmp_path, content), "--on", "ssh", "--json")
    eventually(lambda: has_checkpoint(hosts, "own"), process=process)
    before = hosts.kill("other", "trainer")
    eventually(lambda: hosts.pid("other", "trainer") not in (0, before), process=process)
    data.let_go()
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    result = json.loads(out)
    assert result["rows"] - result["repeated_rows"] == 4500
    books = [(book["node"], book["rows"], book["untrained_pieces"]) for book in result["nodes"]]
    assert books == [(0, 1750, 0), (1, 2750, 0)]
    assert any(fault.startswith("trainer.1 died") or "trainer.1 was" in fault for fault in result["faults"])
    assert result["test"]["rows"] == 1500


def test_a_second_job_on_the_same_hosts_survives_the_stop_of_the_first(hosts, criteo, tmp_path):
    """Neither ends before the test has looked: the first would take very long, and data of the second is held."""
    content = long_job(hosts, criteo, "first")
    content["train"]["epochs"] = 500
    first = hosts.start("train", job(tmp_path, content), "--on", "ssh", "--json")
    eventually(lambda: has_checkpoint(hosts, "first"), process=first)
    data, content = hold(criteo["train"], tmp_path / "data"), settings(hosts, criteo, name="second")
    content["data"] |= data.settings
    second = hosts.start("train", job(tmp_path, content), "--on", "ssh", "--json")
    eventually(lambda: len(hosts.processes("other")) >= 6, process=second)
    listed = json.loads(hosts.run("jobs", "--json").stdout)
    assert {(entry["name"], entry["phase"]) for entry in listed} == {("first", "running"), ("second", "running")}
    stopped = hosts.run("stop", "first")
    assert stopped.returncode == 0, stopped.stderr
    assert first.wait(120) == 130
    data.let_go()
    out, err = second.communicate(timeout=240)
    assert second.returncode == 0, err
    assert json.loads(out)["rows"] == 2 * 4500
    phases = {entry["name"]: entry["phase"] for entry in json.loads(hosts.run("jobs", "--json").stdout)}
    assert phases == {"first": "stopped", "second": "finished"}
    for name in ("one", "other"):
        assert hosts.processes(name) == []


def test_a_launcher_that_is_killed_leaves_nothing_and_its_job_can_be_resumed(hosts, criteo, tmp_path):
    data, content = hold(criteo["train"], tmp_path / "data"), long_job(hosts, criteo, "lost")
    content["data"] |= data.settings
    path = job(tmp_path, content)
    process = hosts.start("train", path, "--on", "ssh", "--json")
    eventually(lambda: has_checkpoint(hosts, "lost"), process=process)
    process.kill()
    process.communicate()
    eventually(lambda: not hosts.processes("one") and not hosts.processes("other"))
    assert json.loads(hosts.run("jobs", "--json").stdout)[0]["phase"] == "lost"
    data.let_go()
    again = hosts.run("train", path, "--on", "ssh", "--resume", "--json")
    assert again.returncode == 0, again.stderr
    result = json.loads(again.stdout)
    assert result["rows"] - result["repeated_rows"] == 2 * 4500


def test_a_host_that_is_lost_for_good_ends_the_run_with_what_to_do(hosts, criteo, tmp_path):
    content = long_job(hosts, criteo, "alone")
    content["train"]["epochs"] = 500
    content["cluster"] |= {"evict_after": 3, "start_timeout": 10, "restarts": 0}
    process = hosts.start("train", job(tmp_path, content), "--on", "ssh", "--json")
    eventually(lambda: has_checkpoint(hosts, "alone"), process=process)
    hosts.network.cut()
    out, err = process.communicate(timeout=120)
    assert process.returncode != 0
    said = out + err
    assert "other" in said or "pserver.1" in said
    assert "--resume" in said
    # Without a word from the launcher, the host that was cut off stops by itself.
    eventually(lambda: not hosts.processes("other") and not hosts.processes("one"), seconds=60)
    hosts.network.mend()
    # The other host goes on alone, from the last checkpoint.
    content["train"]["epochs"] = 1
    content["cluster"]["hosts"] = content["cluster"]["hosts"][:1]
    again = hosts.run("train", job(tmp_path, content), "--on", "ssh", "--resume", "--json")
    assert again.returncode == 0, again.stdout + again.stderr
