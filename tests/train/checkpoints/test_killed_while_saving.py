"""SIGKILL at every step of writing, replacing and removing checkpoints: the run goes on to the same bits."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

from clickline.files import failpoints
from support.processes import ENVIRONMENT, small_settings
from support.programs import PROGRAMS

pytestmark = pytest.mark.heavy
PROGRAM = PROGRAMS / "checkpoint_deaths.py"


def test_killed_at_every_point_of_a_save_and_resumed_equals_never_killed(criteo, tmp_path):
    settings = {**small_settings(criteo, tmp_path), "checkpoint": {"every_steps": 5, "keep": 2}}
    settings["data"] = {**settings["data"], "test": []}
    done = subprocess.run(
        [sys.executable, str(PROGRAM), json.dumps(settings)],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    deaths = [json.loads(line) for line in done.stdout.splitlines()]
    points = [point for point in failpoints.TRAINING if not point.startswith("standing.")]
    assert [death["point"] for death in deaths] == points
    for death in deaths:
        assert death["signal"] == signal.SIGKILL, death
        assert "error" not in death, death
        assert death["same"], death
        assert death["steps"] == [20, 25], death
        assert death["left"] == [], death
