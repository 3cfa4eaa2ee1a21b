"""Runs without a coordinator, in one process or in ranks, write the status that a coordinator would."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from clickline.config import Job
from clickline.train.monitoring.run_health import complaints_of
from clickline.train.monitoring.run_status import RunStatus
from clickline.train.run_files.run_lock import RunLock
from support.clusters import Run, settings_for
from support.processes import run

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "status.md").read_text(encoding="utf-8")
ALONE = {"pservers": 0, "trainers": 1}
RANKS = {"pservers": 0, "trainers": 2, "threads": 1}


def status_in(directory: Path) -> dict[str, Any]:
    return json.loads((directory / "status.json").read_text(encoding="utf-8"))


def reference_keys(part: str) -> set[str]:
    rows = re.findall(r"^\| (`.*?) \|", part, flags=re.MULTILINE)
    return {key for row in rows for key in re.findall(r"`(\w+)`", row)}


@pytest.mark.heavy
@pytest.mark.parametrize(("strategy", "cluster", "ranks"), [("single", ALONE, 1), ("collective", RANKS, 2)])
def test_the_last_status_is_that_of_the_result(
    strategy: str, cluster: dict[str, int], ranks: int, criteo: dict[str, str], tmp_path: Path
) -> None:
    settings = settings_for(criteo, tmp_path, "alone", strategy=strategy, cluster=cluster)
    done = Run(settings)
    try:
        result = done.ends()
    finally:
        done.close()
    status = status_in(done.directory)
    assert set(status) == reference_keys(PAGE[: PAGE.index("## Members")])
    assert (status["phase"], status["strategy"], status["epoch"]) == ("finished", strategy, 1)
    assert (status["rows"], status["step"], status["test"]) == (result["rows"], result["steps"], result["test"])
    assert status["checkpoint"]["step"] == result["steps"]
    assert status["checkpoint"]["seconds"] > 0
    assert [(m["name"], m["state"]) for m in status["members"]] == [(f"trainer.{r}", "done") for r in range(ranks)]
    assert sum(member["rows"] for member in status["members"]) == pytest.approx(result["rows"], abs=ranks * 500)
    assert all(member["tables"]["embedding"] > 100 and member["memory_mib"] > 10 for member in status["members"])
    shown = run("status", done.directory)
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert f"alone: finished, {strategy}" in shown.stdout
    assert f"table embedding: {sum(m['tables']['embedding'] for m in status['members']):,} rows" in shown.stdout


@pytest.mark.heavy
def test_a_run_of_one_process_can_be_watched_while_it_trains(criteo: dict[str, str], tmp_path: Path) -> None:
    settings = settings_for(criteo, tmp_path, "alone", strategy="single", cluster=ALONE, train={"epochs": 10_000})
    live = Run(settings, meant_to_end=True)
    try:
        live.steps(1)
        first = live.status()
        assert (first["phase"], first["members"][0]["pid"]) == ("training", live.process.pid)
        live.steps(first["step"] + 1)
        assert live.status()["time"] > first["time"]
        assert run("status", live.directory).returncode == 0
        live.process.send_signal(signal.SIGINT)
        live.process.wait(timeout=60)
        assert live.status()["phase"] == "interrupted"
        assert run("status", live.directory).returncode == 1
    finally:
        live.close()


@pytest.mark.heavy
def test_a_rank_that_is_killed_leaves_a_status_that_says_so(criteo: dict[str, str], tmp_path: Path) -> None:
    settings = settings_for(criteo, tmp_path, "ranks", strategy="collective", cluster=RANKS, train={"epochs": 10_000})
    live = Run(settings, meant_to_end=True)
    try:
        live.steps(1)
        os.kill(live.status()["members"][0]["pid"], signal.SIGKILL)
        live.ends(code=7)
        status = live.status()
        assert status["phase"] == "failed"
        assert "trainer.0" in status["why"]
    finally:
        live.close()


def test_a_run_that_fails_says_why(tmp_path: Path) -> None:
    with (
        RunLock(tmp_path, role="test") as lock,
        pytest.raises(ValueError, match="broken"),
        RunStatus(Job(), lock=lock),
    ):
        assert status_in(tmp_path)["phase"] == "gathering"
        raise ValueError("broken")
    status = status_in(tmp_path)
    assert (status["phase"], status["why"]) == ("failed", "ValueError: broken")
    assert list(complaints_of(status)) == ["the run failed: ValueError: broken"]


def test_a_process_that_was_replaced_leaves_the_status_alone(tmp_path: Path) -> None:
    with RunLock(tmp_path, role="first") as lock:
        first = RunStatus(Job(name="first"), lock=lock)
        (tmp_path / ".run.lock").write_text('{"writer_epoch": 9, "nonce": "of another"}\n')
        first.write()
    assert not (tmp_path / "status.json").exists()
