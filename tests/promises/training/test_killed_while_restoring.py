"""Everybody goes back to a checkpoint, and a server dies in the middle of it: they go back once more, and on."""

from __future__ import annotations

import signal

import pytest

from support.clusters import settings_for
from support.eventually import eventually
from support.programs import PROGRAMS

pytestmark = pytest.mark.heavy
WITHOUT_MECHANISM = [str(PROGRAMS / "disabled_mechanism.py")]
EPOCHS, ROWS = 4, 4500


def test_a_server_that_dies_between_its_load_and_the_next_step(criteo, tmp_path, assemble, monkeypatch):
    monkeypatch.setenv("FAULT", "round")
    settings = settings_for(criteo, tmp_path, "back", strategy="sync", train={"epochs": EPOCHS})
    run = assemble(settings, rows=EPOCHS * ROWS)
    run.start("coordinator")
    dying = run.start("pserver", 0, program=WITHOUT_MECHANISM)
    run.start("pserver", 1)
    for rank in range(2):
        run.start("trainer", rank)
    run.steps(5)
    run.kill_hard("trainer.1")  # in lockstep everybody goes back for that
    run.start("trainer", 1)
    eventually(lambda: dying.poll() is not None, what="pserver.0 has gone back, and died of the next order")
    assert dying.returncode == -signal.SIGKILL
    run.start("pserver", 0)
    result = run.ends()
    assert result["rows"] - result["repeated_rows"] == EPOCHS * ROWS
    assert result["set_aside"] == []
    assert result["generation"] >= 3
