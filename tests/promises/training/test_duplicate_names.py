"""Two processes of one name: one of them counts, the other ends with a code of its own, and no row is the price."""

from __future__ import annotations

import os
import signal
import socket

import pytest

from support.clusters import Parts, free_ports, pushes, settings_for, shows_of
from support.training.gated_data import SLOTS, gated_settings, write_gated

pytestmark = pytest.mark.heavy
ROWS = 6 * 400
PATIENT = {"pservers": 1, "warn_after": 4, "evict_after": 600, "deadline": 3, "piece_attempts": 1}
"""One attempt: a piece that is blamed for anything is set aside."""


@pytest.fixture
def run(tmp_path, assemble, request) -> Parts:
    """Both trainers wait in the middle of a piece, until `go` is there; then each has one more to do."""
    waiting = dict.fromkeys(range(2, 6), (200, "WAIT go"))
    pattern = write_gated(tmp_path / "data", files=6, rows=400, orders=waiting)
    strategy = getattr(request, "param", "async")
    settings = settings_for(
        {"train": "", "test": ""}, tmp_path, f"twins-{strategy}", strategy=strategy, cluster=PATIENT
    )
    run = assemble(gated_settings(settings, pattern), rows=ROWS)
    run.start_all()
    run.go = (tmp_path / "data" / "go").touch
    if strategy == "async":
        run.reaches(lambda: min(pushes(run), default=0) >= 2 * (2 * 8 + 2 * 4), "both wait in the middle of a piece")
    else:
        run.steps(1)
    return run


def elsewhere() -> str:
    return f"tcp:127.0.0.1:{free_ports(1)[0]}"


def well(run: Parts, name: str, pid: int) -> bool:
    members = run.status().get("members", [])
    return any((m["name"], m["pid"], m["state"]) == (name, pid, "well") for m in members)


def test_twins_of_living_processes_are_refused(run):
    first = {name: run.started[name].pid for name in ("trainer.0", "pserver.0")}
    run.start("trainer", 0, name="twin of trainer.0")
    run.start("pserver", 0, name="twin of pserver.0", elsewhere=elsewhere())
    for name, pid in first.items():
        run.ends_replaced(f"twin of {name}")
        assert f"{name} is process {pid} on {socket.gethostname()}" in run.log(f"twin of {name}")
    run.go()
    result = run.ends()
    assert (result["rows"], result["repeated_rows"], result["lost_pushes"], result["set_aside"]) == (ROWS, 0, 0, [])
    assert (result["faults"], run.status()["restarts"]) == ([], 0)
    assert set(shows_of(run.checkpoints()[-1]).values()) == {float(ROWS * SLOTS)}


@pytest.mark.parametrize("run", ["async", "sync"], indirect=True)
def test_processes_that_were_stopped_replaced_and_woken_change_nothing(run):
    """A server and a trainer at once: the server's place is taken at another address, where the others follow it."""
    stopped = {name: run.started.pop(name) for name in ("pserver.0", "trainer.0")}
    for process in stopped.values():
        run.hit(process.pid, signal.SIGSTOP)
    new = {"pserver.0": run.start("pserver", 0, elsewhere=elsewhere()), "trainer.0": run.start("trainer", 0)}
    for name, process in new.items():
        run.reaches(lambda name=name, pid=process.pid: well(run, name, pid), f"another {name} is in its place")
    for name, process in stopped.items():
        os.kill(process.pid, signal.SIGCONT)
        run.started[f"old {name}"] = process
    run.go()
    for name in stopped:
        run.ends_replaced(f"old {name}")
    result = run.ends()
    assert result["rows"] - result["repeated_rows"] == ROWS
    assert result["set_aside"] == []
    assert any("was replaced by process" in fault for fault in result["faults"])
    assert run.status()["restarts"] == 2
    if run.job.resolved_strategy == "sync":  # all went back together, so what the old ones had done is undone
        assert result["repeated_rows"] == 0
        assert set(shows_of(run.checkpoints()[-1]).values()) == {float(ROWS * SLOTS)}
