"""How a run ends that cannot go on, or may not: quickly, with a reason, and with nothing left behind."""

from __future__ import annotations

import signal
import socket
from pathlib import Path

import pytest

from clickline.train.run_files.run_lock import FILE, RunLock
from support.clusters import settings_for
from support.eventually import eventually
from support.training.gated_data import gated_settings, write_gated

pytestmark = pytest.mark.heavy


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


@pytest.mark.parametrize(("number", "transport"), [(signal.SIGINT, "unix"), (signal.SIGTERM, "tcp")])
def test_a_signal_leaves_nothing_behind(tmp_path, launch, number, transport):
    pattern = write_gated(tmp_path / "data", files=4, rows=500, orders={})
    changes = {"train": {"epochs": 10_000}, "cluster": {"transport": transport}}
    settings = settings_for({"train": "", "test": ""}, tmp_path, "stopped", **changes)
    run = launch(gated_settings(settings, pattern), meant_to_end=True)
    run.cuts(1)
    members = run.reaches(lambda: len(m := run.status()["members"]) == 5 and m)  # the coordinator is the launcher
    run.hit(run.process.pid, number)
    run.ends(130)
    assert "Traceback" not in run.err
    for member in members:
        assert gone(member["pid"]), member["name"]
        kind, _, address = member["address"].partition(":")
        if kind == "unix":
            assert not Path(address).parent.exists()
        elif kind == "tcp":
            host, port = address.rsplit(":", 1)
            with socket.socket() as again:
                again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                again.bind((host, int(port)))
    left = [path.name for path in run.directory.rglob(".*")]
    assert left == [FILE]  # it knows the writers' epoch, and nobody holds it
    RunLock(run.directory, role="test").release()
    assert run.status()["phase"] == "interrupted"


@pytest.mark.parametrize("what", ["data", "divergence"])
def test_what_would_fail_again_ends_everything(tmp_path, launch, what):
    """Exit code, and the last thing on screen, say what went wrong first, and where."""
    orders = {2: (100, "RAISE")} if what == "data" else {}
    pattern = write_gated(tmp_path / "data", files=4, rows=500, orders=orders)
    changes = {"cluster": {"trainers": 3}}
    if what == "divergence":
        steep = {"optimizer": {"name": "sgd", "learning_rate": 100}}
        changes |= {"train": {"epochs": 100, **steep}, "tables": {"embedding": steep, "linear": steep}}
    settings = gated_settings(settings_for({"train": "", "test": ""}, tmp_path, what, **changes), pattern)
    run = launch(settings, meant_to_end=True)
    failed = {"data": "this log is torn", "divergence": "training diverged"}[what]
    eventually(lambda: any(failed in run.log(f"trainer.{rank}") for rank in range(3)), what="a trainer fails")
    members = run.status().get("members", [])
    run.ends(7)
    assert all(gone(member["pid"]) for member in members)
    last = run.err[run.err.rindex("error:") if "error:" in run.err else -2000 :]
    assert "trainer." in last
    assert failed in last, run.err
    assert "Traceback" not in run.err


def test_a_server_that_never_starts_is_named(tmp_path, assemble):
    pattern = write_gated(tmp_path / "data", files=2, rows=100, orders={})
    settings = settings_for(
        {"train": "", "test": ""}, tmp_path, "missing", cluster={"pservers": 2, "trainers": 1, "start_timeout": 8}
    )
    run = assemble(gated_settings(settings, pattern), meant_to_end=True)
    run.start("coordinator")
    run.start("pserver", 0)
    run.start("trainer", 0)
    codes = {name: process.wait(timeout=60) for name, process in run.started.items()}
    assert codes["coordinator.0"] == 7
    for name in ("pserver.0", "trainer.0"):  # told why if they came in time, else left alone by the coordinator
        assert codes[name] in (0, 7)
        assert "pserver.1" in run.log(name) or "coordinator.0" in run.log(name)
    assert "waited 8 s for pserver.1" in run.log("coordinator.0")
    eventually(lambda: run.status().get("phase") == "failed")
