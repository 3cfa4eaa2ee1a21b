"""`clickline up`, as the first thing a newcomer types: from raw rows to predictions, and again, and down."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import httpx
import pytest

from cube_processes import eventually
from processes import run
from suite_processes import assert_nothing_left, going_up, run_beside

ROWS = ("--rows", "20000")
COMPONENTS = {"fileserver": 1, "cube": 4, "agent": 4, "transfer": 1, "predictor": 1}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where `up` is called again and again; the tests below go on from each other."""
    return tmp_path_factory.mktemp("up")


@pytest.fixture(scope="module")
def first(place: Path) -> dict[str, Any]:
    """A first `up` is stopped while it trains; a second one goes on from there and ends when all is shown."""
    with going_up(place, *ROWS, "--set", "checkpoint.every_steps=5") as up:
        up.await_phase("training")
        checkpoints = up.state / "demo" / "checkpoints"
        up.await_this(lambda: any(checkpoints.glob("step-*")), what="a checkpoint")
        training = run_beside(place, "status")
        assert "clickline up is training" in training.stdout, training.stderr
        told = up.told()
        down = run_beside(place, "down")
        assert (down.returncode, "stopped" in down.stdout) == (0, True), down.stderr
        assert up.process.wait(30) == 130
        assert_nothing_left(place, told)
    done = run_beside(place, "up", *ROWS, "--set", "checkpoint.every_steps=5", "--once", "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.heavy
def test_up_goes_from_raw_rows_to_predictions(place: Path, first: dict[str, Any]) -> None:
    assert first["training"] == "resumed"
    assert (first["version"], first["kind"], first["model"]) == (1, "base", "ctr")
    assert 0.7 < first["test"]["auc"] < first["best_auc"] < 0.9
    served = first["served"]
    assert (served["rows"], served["versions"]) == (4000, [1])
    assert served["auc"] == pytest.approx(first["test"]["auc"], abs=1e-6)
    assert first["trained_auc"] == pytest.approx(first["test"]["auc"], abs=1e-12)
    assert len(first["samples"]) == 5
    for one in first["samples"]:
        assert 0 < one["probability"] < 1
        assert (one["version"], "C1" in one["features"]) == (1, True)
    roles = [one["role"] for one in first["components"]]
    assert {role: roles.count(role) for role in roles} == COMPONENTS
    assert_nothing_left(place, first)


@pytest.mark.heavy
def test_up_again_serves_what_is_there_and_new_versions_as_they_come(place: Path, first: dict[str, Any]) -> None:
    with going_up(place, *ROWS, "--set", "checkpoint.every_steps=5") as up:
        told = up.await_phase("serving")
        up.await_page()
        page, progress = up.out.read_text(), up.err.read_text()
        assert "trained before" in progress
        assert "published before: version 1" in progress
        assert f"test AUC through the server  {first['served']['auc']:.4f}" in page
        assert f"best that this data allows   {first['best_auc']:.4f}" in page
        assert "\x1b" not in page
        well = run_beside(place, "status")
        assert well.returncode == 0, well.stdout
        assert all(f"{role}.0" in well.stdout for role in COMPONENTS)
        second = run_beside(place, "up", *ROWS)
        assert (second.returncode, "a suite is up in runs already" in second.stderr) == (7, True)

        victim = next(one for one in told["components"] if one["role"] == "cube")
        os.kill(victim["pid"], signal.SIGKILL)
        up.await_this(lambda: "cube.0 is back" in up.err.read_text(), what="the server's return")
        eventually(lambda: run_beside(place, "status").returncode == 0, what="all well again")
        states = json.loads(run_beside(place, "status", "--json").stdout)["components"]
        assert next(one for one in states if one["name"] == victim["name"])["restarts"] == 1

        more = ("train", "runs/demo/job.json", "--resume", "--set", "train.epochs=3", "--json")
        assert run_beside(place, *more).returncode == 0
        published = run_beside(place, "publish", "runs/demo", "--to", "runs/versions", "--json")
        assert json.loads(published.stdout)["version"] == 2, published.stderr
        sample = {"instances": [first["samples"][0]["features"]]}

        def version() -> int:
            return httpx.post(f"{told['http']}/predict", json=sample).json()["version"]

        eventually(lambda: version() == 2, what="version 2 served")
        up.await_this(lambda: "version 2 is in service, after 1" in up.err.read_text(), what="its announcement")
        told = up.told()
        up.process.kill()  # its children notice
        up.process.wait()
        alive = [one["pid"] for one in told["components"]]
        eventually(lambda: not any(_lives(pid) for pid in alive), what="all children gone")
    assert run_beside(place, "status").returncode == 1
    down = run_beside(place, "down")
    assert (down.returncode, "sockets in" in down.stdout) == (0, True)
    assert_nothing_left(place, told)


def _lives(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def test_down_where_nothing_is_up_is_no_error(tmp_path: Path) -> None:
    done = run("down", tmp_path / "nowhere")
    assert (done.returncode, done.stdout) == (0, f"no suite is up in {tmp_path / 'nowhere'}\n")


def test_a_job_that_cannot_be_read_starts_nothing(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("modle: {}\n")
    done = run("up", tmp_path / "job.yaml", "--state", tmp_path / "state", "--once")
    assert done.returncode == 3
    assert re.search(r"modle.*did you mean 'model'", done.stderr, flags=re.DOTALL)
    assert not (tmp_path / "state" / "suite.json").exists()


def test_the_progress_bar_is_for_terminals_only(tmp_path: Path) -> None:
    done = run("data", "criteo", "--rows", "2000", "--ids", "30000", "--out", tmp_path / "log.tsv")
    assert done.returncode == 0, done.stderr
    assert "\r" not in done.stderr
    assert "\x1b" not in done.stdout
