"""Trainers killed with SIGKILL: their pieces go on elsewhere, and a piece that kills its readers is set aside."""

from __future__ import annotations

import subprocess
import sys

import pytest

from support.clusters import leases, pushes, settings_for, shows_of
from support.processes import ENVIRONMENT
from support.training.gated_data import SLOTS, gated_settings, write_gated

pytestmark = pytest.mark.heavy


def test_one_of_three_is_killed_and_a_fourth_joins(tmp_path, launch):
    """No restarts. Three trainers are in the middle of pieces that wait; the fourth gets what the dead one began."""
    waiting = dict.fromkeys(range(3, 8), (200, "WAIT go"))
    pattern = write_gated(tmp_path / "data", files=8, rows=400, orders=waiting)
    cluster = {"trainers": 3, "restarts": 0}
    run = launch(
        gated_settings(settings_for({"train": "", "test": ""}, tmp_path, "three", cluster=cluster), pattern), rows=3200
    )
    batches = 3 * 8 + 3 * 4
    run.reaches(lambda: min(pushes(run), default=0) >= 2 * batches, "everybody waits in the middle of a piece")
    before = leases(run)
    assert len(before) == 3
    run.kill("trainer.1")
    run.reaches(lambda: any("goes on at row" in fault for fault in run.status()["faults"]), "its piece is free")

    fourth = subprocess.Popen(
        [sys.executable, "-m", "clickline", "trainer", str(run.directory / "job.json")],
        env={**ENVIRONMENT, **run.environment_of("trainer.0"), "CLICKLINE_RANK": "3"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    run.reaches(lambda: leases(run).get("trainer.3") == before["trainer.1"], "the fourth goes on with the piece")
    (tmp_path / "data" / "go").touch()
    result = run.ends()
    out, _ = fourth.communicate(timeout=30)
    assert fourth.returncode == 0, out

    # All pushes had arrived when it died, so the piece went on exactly there: no row twice, none missing.
    assert (result["rows"], result["repeated_rows"], result["lost_pushes"]) == (3200, 0, 0)
    assert set(shows_of(run.checkpoints()[-1]).values()) == {3200.0 * SLOTS}
    assert "trainer.1 died, killed by SIGKILL (9)" in result["faults"]
    assert "trainer.1 failed" in run.err
    assert "go on without it" in run.err


def test_a_piece_that_kills_its_readers_is_set_aside(tmp_path, launch):
    """Each reader of part-02 dies after 150 of its rows, and is started again; after two of them it is set aside."""
    pattern = write_gated(tmp_path / "data", files=6, rows=300, orders={2: (150, "DIE")})
    settings = settings_for({"train": "", "test": ""}, tmp_path, "poison", cluster={"piece_attempts": 2})
    run = launch(gated_settings(settings, pattern), rows=6 * 300)
    result = run.ends()
    run.faults = 2
    assert [(one["piece"], one["path"].endswith("part-02.log")) for one in result["set_aside"]] == [(2, True)]
    assert run.status()["pieces"]["set_aside"] == result["set_aside"]
    assert sum("died, killed by SIGKILL" in fault for fault in result["faults"]) == 2
    assert "has taken down 2 trainers and is set aside" in " ".join(result["faults"])
    # What can have been trained of the piece: nothing to all of the rows before the deadly one, by each.
    assert 5 * 300 <= result["rows"] - result["repeated_rows"] <= 5 * 300 + 150
    (shows,) = set(shows_of(run.checkpoints()[-1]).values())
    assert 1500 * SLOTS <= shows <= (result["rows"] + 150) * SLOTS
