"""`clickline up`, as the first thing a newcomer types."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from processes import run


@pytest.mark.heavy
def test_up_goes_from_raw_rows_to_a_cube_that_holds_what_was_trained(tmp_path: Path) -> None:
    done = run("up", "--rows", "20000", "--state", tmp_path, "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert 0.7 < result["test"]["auc"] < result["best_auc"] < 0.9
    assert result["rows"] == 2 * 16_000
    assert Path(result["checkpoint"]).is_dir()
    delivered = result["delivered"]
    assert (delivered["version"], delivered["kind"]) == (1, "base")
    assert delivered["rows_equal"] == delivered["rows_read_back"] > 10_000
    again = run("up", "--rows", "20000", "--state", tmp_path)
    assert again.returncode == 0, again.stderr
    assert f"test AUC {result['test']['auc']:.4f}" in again.stdout
    assert "epoch 1/2" in again.stderr
    assert "delivering version 2 to 2 shards × 2 replicas" in again.stderr
    assert "rows, equal to the bit" in again.stdout


def test_the_progress_bar_is_for_terminals_only(tmp_path: Path) -> None:
    done = run("data", "criteo", "--rows", "2000", "--ids", "30000", "--out", tmp_path / "log.tsv")
    assert done.returncode == 0, done.stderr
    assert "\r" not in done.stderr
    assert "\x1b" not in done.stdout
