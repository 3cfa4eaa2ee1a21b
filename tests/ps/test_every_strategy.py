"""Two servers and two trainers train the same job in every way, started by one command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.processes import run, small_settings, write_job


@pytest.mark.heavy
@pytest.mark.parametrize("way", ["sync", "async", "half_async", "geo", "collective"])
def test_one_command_trains_in_every_way(way: str, criteo: dict[str, str], tmp_path: Path) -> None:
    settings = small_settings(criteo, tmp_path)
    servers = 0 if way == "collective" else 2
    settings |= {"strategy": way, "cluster": {"pservers": servers, "trainers": 2, "piece_bytes": 100_000}}
    job = write_job(tmp_path / "job.yaml", settings)
    done = run("train", job, "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["rows"] == 4500
    assert result["test"]["rows"] == 1500
    assert result["test"]["auc"] > 0.55
    logs = tmp_path / "runs" / "small" / "logs"
    roles = ["pserver.0", "pserver.1"] * (servers > 0) + ["trainer.0", "trainer.1"]
    assert sorted(file.stem for file in logs.iterdir()) == sorted(roles)
    evaluated = run("evaluate", result["checkpoint"], criteo["test"], "--json")
    assert json.loads(evaluated.stdout)["auc"] == pytest.approx(result["test"]["auc"], abs=1e-6)


@pytest.mark.heavy
def test_rows_in_sixteen_bits_train_too(criteo: dict[str, str], tmp_path: Path) -> None:
    settings = small_settings(criteo, tmp_path)
    settings["cluster"] = {"pservers": 1, "trainers": 1, "wire": "bf16"}
    done = run("train", write_job(tmp_path / "job.yaml", settings), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["test"]["auc"] > 0.55
