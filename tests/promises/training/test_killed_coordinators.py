"""The coordinator killed with SIGKILL: a new one reads where it stood, and the others go on with it."""

from __future__ import annotations

import pytest

from support.clusters import leases, pushes, settings_for, shows_of
from support.ports import is_free, port_range
from support.training.gated_data import SLOTS, gated_settings, write_gated

pytestmark = pytest.mark.heavy


def test_a_new_one_takes_over(tmp_path, assemble):
    """A trainer that dies while there is none is missed by the new one, and its piece goes on with another."""
    waiting = dict.fromkeys(range(2, 6), (200, "WAIT go"))
    pattern = write_gated(tmp_path / "data", files=6, rows=400, orders=waiting)
    settings = settings_for(
        {"train": "", "test": ""}, tmp_path, "orphans", cluster={"pservers": 1, "warn_after": 5, "evict_after": 8}
    )
    run = assemble(gated_settings(settings, pattern), rows=2400)
    run.start_all()
    batches = 2 * 8 + 2 * 4
    run.reaches(lambda: min(pushes(run), default=0) >= 2 * batches, "both wait in the middle of a piece")
    held = leases(run)
    assert len(held) == 2
    run.kill_hard("coordinator.0")
    run.kill_hard("trainer.1")
    # trainer.0 finishes its piece with nobody to tell, and the next trainer.1 finds nobody to join.
    (tmp_path / "data" / "go").touch()
    run.start("trainer", 1)
    run.start("coordinator")
    result = run.ends()
    assert "was gone when the new coordinator came" in " ".join(result["faults"])
    assert "taking up the run where the coordinator before stood: epoch 1" in run.log("coordinator.0")
    assert result["generation"] == 1
    assert (result["rows"], result["repeated_rows"], result["lost_pushes"]) == (2400, 0, 0)
    assert set(shows_of(run.checkpoints()[-1]).values()) == {2400.0 * SLOTS}


def test_lockstep_goes_back_to_the_last_cut_and_on(criteo, tmp_path, assemble):
    settings = settings_for(
        criteo, tmp_path, "lockstep", strategy="sync", train={"epochs": 3}, checkpoint={"every_steps": 20}
    )
    run = assemble(settings, rows=3 * 4500)
    run.start_all()
    run.cuts(2)
    run.kill_hard("coordinator.0")
    run.start("coordinator")
    result = run.ends()
    assert result["generation"] == 2
    assert result["rows"] == 3 * 4500
    cut = run.checkpoints()[-1]
    assert cut.manifest["standing"]["rows"] == result["rows"]


def test_one_that_lives_in_a_server_is_killed_with_it(tmp_path, assemble):
    """Nobody names a coordinator, so pserver 0 is it. Another in its place is both again."""
    waiting = dict.fromkeys(range(2, 6), (200, "WAIT go"))
    pattern = write_gated(tmp_path / "data", files=6, rows=400, orders=waiting)
    settings = settings_for({"train": "", "test": ""}, tmp_path, "both", cluster={"warn_after": 5, "deadline": 3})
    run = assemble(gated_settings(settings, pattern), rows=2400)
    port = next(p for p in iter(lambda: port_range(1), None) if is_free(p + 1000))  # where its coordinator listens
    run.servers[0] = f"tcp:127.0.0.1:{port}"
    run.shared["CLICKLINE_PSERVERS"] = ",".join(run.servers)
    del run.shared["CLICKLINE_COORDINATOR"]
    run.process = run.start("pserver", 0)
    run.start("pserver", 1)
    for rank in range(2):
        run.start("trainer", rank)
    run.reaches(lambda: min(pushes(run), default=0) >= 2 * (2 * 8 + 2 * 4), "both wait in the middle of a piece")
    run.kill_hard("pserver.0")
    run.process = run.start("pserver", 0)
    run.reaches(lambda: "taking up the run" in run.log("pserver.0"), "it is the coordinator again")
    (tmp_path / "data" / "go").touch()
    result = run.ends()
    assert (result["rows"] - result["repeated_rows"], result["set_aside"]) == (2400, [])
