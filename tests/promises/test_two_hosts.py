"""One model, two hosts: processes that know each other by their environment alone train over TCP.

In the middle of it, a cable is pulled.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from clickline.data.synthetic import write_criteo
from support.eventually import eventually
from support.hosts.network_hosts import Host, Hosts, two_hosts, unavailable
from support.processes import write_job

pytestmark = pytest.mark.heavy
ROWS, TEST_ROWS, EPOCHS = 10_000, 1500, 2
SERVICE = "198.18.7.9"
Run = dict[str, subprocess.Popen[bytes]]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    directory = tmp_path_factory.mktemp("log")
    write_criteo(directory / "data.tsv", rows=ROWS + TEST_ROWS, seed=3, ids=30_000, test_rows=TEST_ROWS)
    return {"train": str(directory / "data.train.tsv"), "test": str(directory / "data.test.tsv")}


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    if why := unavailable():
        pytest.skip(why)
    with two_hosts() as both:
        yield both


@pytest.fixture
def job(log: dict[str, str], tmp_path: Path) -> Path:
    settings: dict[str, object] = {
        "name": "far",
        "output": str(tmp_path / "runs"),
        "threads": 1,
        "data": {**log, "shuffle_rows": 1000},
        "model": {"name": "deepfm", "embedding_dim": 4, "hidden": [16]},
        "train": {"batch_size": 10, "log_every": 100, "epochs": EPOCHS},
        # A request is given up and sent again while the cable is out, so that what must happen once is asked for twice.
        "cluster": {"piece_bytes": 200_000, "heartbeat": 0.3, "deadline": 1.0, "warn_after": 1.5, "evict_after": 60},
        "checkpoint": {"every_steps": 500},
    }
    return write_job(tmp_path / "job.yaml", settings)


def by_our_names(hosts: Hosts, job: Path) -> Run:
    one, other = hosts.one.address, hosts.other.address
    shared = {
        "CLICKLINE_PSERVERS": f"tcp:{one}:6174,tcp:{other}:6174",
        "CLICKLINE_COORDINATOR": f"tcp:{one}:7000",
        "CLICKLINE_TRAINERS": "2",
    }
    run = {"coordinator.0": started(hosts.one, "coordinator", 0, job, shared)}
    for rank, host in enumerate((hosts.one, hosts.other)):
        for role in ("pserver", "trainer"):
            own = {**shared, "CLICKLINE_RANK": str(rank)}
            run[f"{role}.{rank}"] = started(host, role, rank, job, own)
    return run


def by_a_service(hosts: Hosts, job: Path) -> dict[str, str]:
    """What all know: the coordinator has an address of its own, whoever has that."""
    one, other = hosts.one.address, hosts.other.address
    return {
        "CLICKLINE_PSERVERS": f"tcp:{one}:6174,tcp:{other}:6174",
        "CLICKLINE_COORDINATOR": f"tcp:{SERVICE}:7000",
        "CLICKLINE_TRAINERS": "2",
    }


def by_older_names(hosts: Hosts, job: Path) -> Run:
    """Nobody names a coordinator, so pserver 0 is it."""
    shared = {
        "PADDLE_PSERVERS_IP_PORT_LIST": f"{hosts.one.address}:6174,{hosts.other.address}:6174",
        "PADDLE_TRAINERS_NUM": "2",
        "PADDLE_PORT": "6174",
    }
    run: Run = {}
    for rank, host in enumerate((hosts.one, hosts.other)):
        own = {**shared, "POD_IP": host.address}
        run[f"pserver.{rank}"] = started(host, "pserver", rank, job, {**own, "TRAINING_ROLE": "PSERVER"})
        trainer = {**own, "TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": str(rank)}
        run[f"trainer.{rank}"] = started(host, "trainer", rank, job, trainer)
    return run


def started(host: Host, role: str, rank: int, job: Path, env: dict[str, str]) -> subprocess.Popen[bytes]:
    return host.start(role, job, log=job.parent / "logs" / f"{role}.{rank}.log", env=env)


def run_of(job: Path) -> Path:
    return job.parent / "runs" / "far"


def status(job: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run_of(job) / "status.json").read_text(encoding="utf-8"))
    return found


def states(job: Path) -> dict[str, str]:
    return {member["name"]: member["state"] for member in status(job)["members"]}


def training(job: Path) -> bool:
    """Whether a line of figures has been written, and so some steps are done."""
    file = run_of(job) / "metrics.jsonl"
    return file.exists() and '"train"' in file.read_text(encoding="utf-8")


def logs(job: Path) -> str:
    return "\n".join(f"== {file.name}\n{file.read_text()}" for file in sorted((job.parent / "logs").iterdir()))


def watched(run: Run, job: Path) -> Callable[[], None]:
    """Nothing may fail while we wait."""

    def well() -> None:
        failed = {name: process.returncode for name, process in run.items() if process.poll()}
        assert not failed, f"{failed}\n{logs(job)}"

    return well


def finish(run: Run, job: Path) -> dict[str, Any]:
    """Wait for the end, which must be a good one; what came of the run."""
    eventually(lambda: all(process.poll() == 0 for process in run.values()), doing=watched(run, job), seconds=240)
    assert status(job)["phase"] == "finished"
    result: dict[str, Any] = json.loads((run_of(job) / "result.json").read_text(encoding="utf-8"))
    assert result["set_aside"] == []
    assert result["test"]["rows"] == TEST_ROWS
    assert result["test"]["auc"] > 0.6
    return result


@pytest.mark.parametrize(("start", "strategy"), [(by_older_names, "async"), (by_our_names, "sync")])
def test_a_host_is_cut_off_for_a_while(
    hosts: Hosts, job: Path, start: Callable[[Hosts, Path], Run], strategy: str
) -> None:
    job.write_text(f"{job.read_text()}strategy: {strategy}\n", encoding="utf-8")
    run = start(hosts, job)
    well = watched(run, job)
    eventually(lambda: training(job), doing=well, seconds=120)
    hosts.cut()
    # The status is written each second, so for a moment it may be older than those who joined.
    eventually(
        lambda: {states(job).get(name) for name in ("pserver.1", "trainer.1")} == {"slow"}, doing=well, seconds=60
    )
    assert status(job)["rows"] < ROWS * EPOCHS
    hosts.mend()
    result = finish(run, job)
    assert (result["rows"], result["repeated_rows"], result["lost_pushes"]) == (ROWS * EPOCHS, 0, 0)
    assert result["faults"] == []
    if strategy != "sync":  # in lockstep one waits for the others however long they take, and TCP sends again
        assert sum(member.get("retries", 0) for member in status(job)["members"]) > 0


def test_a_host_is_cut_off_until_it_is_given_up_and_comes_back(hosts: Hosts, job: Path) -> None:
    job.write_text(job.read_text().replace("evict_after: 60", "evict_after: 3"), encoding="utf-8")
    run = by_our_names(hosts, job)
    well = watched(run, job)
    eventually(lambda: training(job), doing=well, seconds=120)
    hosts.cut()
    eventually(lambda: "pserver.1 was silent for 3 s" in logs(job), doing=well, seconds=60)
    hosts.mend()
    result = finish(run, job)
    assert result["rows"] - result["repeated_rows"] >= ROWS * EPOCHS
    assert "pserver.1 came back" in result["faults"]


@pytest.mark.parametrize("strategy", ["async", "sync"])
def test_what_was_replaced_behind_a_cut_ends_when_the_cable_is_back(hosts: Hosts, job: Path, strategy: str) -> None:
    """Server and trainer of the other host go on alone, as long as they can; others have their names by then."""
    text = job.read_text().replace("evict_after: 60", "evict_after: 30")
    job.write_text(f"{text}strategy: {strategy}\n", encoding="utf-8")
    run = by_our_names(hosts, job)
    eventually(lambda: training(job), doing=watched(run, job), seconds=120)
    hosts.cut()
    old = {name: run.pop(name) for name in ("pserver.1", "trainer.1")}
    one = hosts.one.address
    shared = {
        "CLICKLINE_PSERVERS": f"tcp:{one}:6174,tcp:{one}:6175",
        "CLICKLINE_COORDINATOR": f"tcp:{one}:7000",
        "CLICKLINE_TRAINERS": "2",
        "CLICKLINE_RANK": "1",
    }
    for name in old:
        run[name] = started(hosts.one, name.partition(".")[0], 1, job, shared)
    well = watched(run, job)
    new = {name: run[name].pid for name in old}
    eventually(lambda: pids(job).items() >= new.items(), doing=well, seconds=120)
    hosts.mend()
    for name, process in old.items():
        assert process.wait(120) == 9, f"{name}\n{logs(job)}"
    result = finish(run, job)
    assert result["rows"] - result["repeated_rows"] == ROWS * EPOCHS
    assert strategy != "sync" or result["repeated_rows"] == 0


@pytest.mark.parametrize("strategy", ["async", "sync"])
def test_a_coordinator_that_was_replaced_behind_a_cut_changes_nothing(hosts: Hosts, job: Path, strategy: str) -> None:
    """With it, a server and a trainer are cut off. The second coordinator gets the first one's address on this side.

    The first one's lock does not reach the second: here, because the locked file was removed.
    """
    text = job.read_text().replace("evict_after: 60", "evict_after: 30")
    job.write_text(f"{text}strategy: {strategy}\n", encoding="utf-8")
    hosts.other.take(SERVICE)
    shared = by_a_service(hosts, job)
    first = started(hosts.other, "coordinator", 0, job, shared)
    run: Run = {}
    for rank, host in enumerate((hosts.one, hosts.other)):
        for role in ("pserver", "trainer"):
            run[f"{role}.{rank}"] = started(host, role, rank, job, {**shared, "CLICKLINE_RANK": str(rank)})
    eventually(lambda: training(job), doing=watched(run, job), seconds=120)
    hosts.cut()
    (run_of(job) / ".run.lock").unlink()
    hosts.one.take(SERVICE)
    run["coordinator.0"] = started(hosts.one, "coordinator", 0, job, shared)
    well = watched(run, job)
    eventually(lambda: "taking up the run" in logs(job), doing=well, seconds=60)
    hosts.other.drop(SERVICE)
    hosts.mend()
    eventually(lambda: first.poll() is not None, doing=well, seconds=120)
    assert first.returncode == 9, logs(job)
    result = finish(run, job)
    assert result["rows"] - result["repeated_rows"] == ROWS * EPOCHS
    assert strategy != "sync" or result["repeated_rows"] == 0
    assert standing(job)["writer_epoch"] == 2


def standing(job: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run_of(job) / "coordinator.json").read_text(encoding="utf-8"))
    return found


def pids(job: Path) -> dict[str, int]:
    return {member["name"]: member["pid"] for member in status(job)["members"] if member["state"] == "well"}
