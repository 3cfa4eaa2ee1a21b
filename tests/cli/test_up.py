"""`clickline up`, as the first thing a newcomer types: from raw rows to predictions, and again, and down."""

from __future__ import annotations

import json
import os
import re
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from support.eventually import eventually
from support.page_commands import ROOT, Reader, shell_blocks
from support.processes import run
from support.suites.suite_processes import assert_nothing_left, going_up, lives, run_beside

ROWS = ("--rows", "20000", "--set", "checkpoint.every_steps=5")
PARTS = {"fileserver": 1, "cube": 4, "agent": 4, "transfer": 1, "predictor": 1}


@pytest.mark.heavy
def test_up_and_down_and_up_again(tmp_path: Path) -> None:
    """One long way, since each of its steps goes on from the state that the one before has left."""
    _stopped_while_it_trains(tmp_path)
    first = _resumed_and_measured(tmp_path)
    _killed_while_it_serves(tmp_path)
    _quick_start(tmp_path, first)


def _stopped_while_it_trains(place: Path) -> None:
    with going_up(place, *ROWS) as up:
        told = up.await_phase("training")
        status = run_beside(place, "status")
        assert "clickline up is training" in status.stdout, status.stderr
        up.await_this(lambda: any(up.state.glob("demo/checkpoints/step-*")), what="a checkpoint")
        assert up.end(signal.SIGTERM) == 130
    assert_nothing_left(place, told)


def _resumed_and_measured(place: Path) -> dict[str, Any]:
    done = run_beside(place, "up", *ROWS, "--once", "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["training"] == "resumed"
    assert (found["version"], found["kind"], found["model"]) == (1, "base", "ctr")
    assert 0.7 < found["test"]["auc"] < found["best_auc"] < 0.9
    assert (found["served"]["rows"], found["served"]["versions"]) == (4000, [1])
    assert found["served"]["auc"] == pytest.approx(found["test"]["auc"], abs=1e-5)
    assert found["trained_auc"] == found["test"]["auc"]
    assert len(found["samples"]) == 5
    for one in found["samples"]:
        assert 0 < one["probability"] < 1
        assert (one["version"], "C1" in one["features"]) == (1, True)
    assert Counter(one["role"] for one in found["components"]) == PARTS
    assert_nothing_left(place, found)
    return found


def _killed_while_it_serves(place: Path) -> None:
    with going_up(place, *ROWS) as up:
        told = up.await_phase("serving")
        os.kill(up.process.pid, signal.SIGKILL)
        up.process.wait()
        eventually(lambda: not any(lives(one["pid"]) for one in told["components"]), what="all children gone")
    status = run_beside(place, "status")
    assert (status.returncode, "is gone without having stopped it" in " ".join(status.stdout.split())) == (1, True)
    assert Path(told["sockets"]).is_dir()


def _quick_start(place: Path, first: dict[str, Any]) -> None:
    """The commands of the README, with a look at what else there is to see; then nothing is left, nor was before."""
    (make,), commands = shell_blocks("README.md", heading="Quick start")
    assert make == "make up"
    assert re.search(r"^up: .*\n\t\$\(BIN\)/clickline up$", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    reader = Reader(place)
    with going_up(place, *ROWS) as up:
        told = up.await_phase("serving")
        up.await_page()
        page, progress = up.out.read_text(), up.err.read_text()
        assert "trained before" in progress
        assert "published before: version 1" in progress
        assert f"test AUC through the server  {first['served']['auc']:.4f}" in page
        assert f"best that this data allows   {first['best_auc']:.4f}" in page
        assert "\x1b" not in page
        second = run_beside(place, "up", *ROWS)
        assert (second.returncode, "a suite is up in runs already" in second.stderr) == (7, True)
        predictor = next(one["pid"] for one in told["components"] if one["role"] == "predictor")
        workers = Path(f"/proc/{predictor}/task/{predictor}/children").read_text().split()
        assert len(workers) == 2
        _kill_a_server(place, told)

        reader.url = told["http"]
        ask, predict, status, log, train, again, down = commands
        answer = json.loads(reader.types(ask))
        assert (len(answer["predictions"]), answer["version"]) == (1, 1)
        assert f"{answer['predictions'][0]:.6f}" in reader.types(predict)
        shown = reader.types(status)
        assert all(f"{role}.0" in shown for role in PARTS)
        reader.types(log)
        assert "version 2 (" in reader.types(train)
        assert again == predict
        eventually(lambda: json.loads(reader.types(f"{again} --json"))["versions"] == [2], what="version 2 served")
        up.await_this(lambda: "version 2 is in service, after 1" in up.err.read_text(), what="its announcement")
        told = up.told()
        assert "stopped" in reader.types(down)
        assert up.process.wait(30) == 0
    assert_nothing_left(place, told)


def _kill_a_server(place: Path, told: dict[str, Any]) -> None:
    victim = next(one for one in told["components"] if one["role"] == "cube")
    os.kill(victim["pid"], signal.SIGKILL)

    def mended() -> bool:
        found = json.loads(run_beside(place, "status", "--json").stdout)
        restarts = {one["name"]: one["restarts"] for one in found["components"]}
        return found["well"] and restarts[victim["name"]] == 1

    eventually(mended, what="the server back, and all well")


def test_down_where_nothing_is_up_is_no_error(tmp_path: Path) -> None:
    done = run("down", tmp_path / "nowhere")
    assert (done.returncode, done.stdout) == (0, f"no suite is up in {tmp_path / 'nowhere'}\n")


def test_a_job_that_cannot_be_read_starts_nothing(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("modle: {}\n")
    done = run("up", tmp_path / "job.yaml", "--state", tmp_path / "state", "--once")
    assert done.returncode == 3
    assert re.search(r"modle.*did you mean model", done.stderr, flags=re.DOTALL)
    assert not (tmp_path / "state" / "suite.json").exists()


def test_the_progress_bar_is_for_terminals_only(tmp_path: Path) -> None:
    done = run("data", "criteo", "--rows", "2000", "--ids", "30000", "--out", tmp_path / "log.tsv")
    assert done.returncode == 0, done.stderr
    assert "\r" not in done.stderr
    assert "\x1b" not in done.stdout
