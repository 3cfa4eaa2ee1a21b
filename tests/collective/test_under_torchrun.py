"""Plain torchrun starts ranks that need nothing else."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from support.processes import small_settings, write_job
from support.training.rank_processes import PROGRAM, QUIET

pytestmark = pytest.mark.heavy


def test_torchrun_trains(criteo, tmp_path):
    settings = small_settings(criteo, tmp_path)
    settings["strategy"] = "collective"
    job = write_job(tmp_path / "job.yaml", settings)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*command, str(PROGRAM), str(job)], capture_output=True, text=True, env=QUIET, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "runs" / "small" / "result.json").read_text())
    assert result["rows"] == 4500
    assert result["steps"] < 30, "both ranks had rows"
    assert done.stderr.count("test: ") == 1, "one rank speaks"


def test_torchrun_ends_when_a_rank_dies(criteo, tmp_path):
    settings = small_settings(criteo, tmp_path)
    job = write_job(tmp_path / "job.yaml", settings)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*command, str(PROGRAM), str(job), "--die", "1", "5", "raise"],
        capture_output=True,
        text=True,
        env=QUIET,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    assert "the moon is full at step 5" in done.stderr
