"""`clickline status`: a run's state for people and programs, and an exit code that says whether it is well."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from clickline.cli.all_verbs import app

runner = CliRunner()


def member(role: str, rank: int, **facts: Any) -> dict[str, Any]:
    return {"role": role, "rank": rank, "name": f"{role}.{rank}", "state": "well", "silent": 0.4, "retries": 0, **facts}


def status_of(**facts: Any) -> dict[str, Any]:
    return {
        "time": time.time() - 1,
        "job": "demo",
        "strategy": "async",
        "phase": "training",
        "epoch": 2,
        "epochs": 3,
        "step": 1200,
        "rows": 1_200_000,
        "rows_per_second": 45678.9,
        "loss": 0.45,
        "auc": 0.77,
        "generation": 1,
        "members": [
            member("pserver", 0, tables={"embedding": 123456, "linear": 7}, memory_mib=512.3),
            member("pserver", 1, tables={"embedding": 100000, "linear": 5}, memory_mib=498.7),
            member("trainer", 0, rows_per_second=22000.5, queue=2, staleness=1.5),
        ],
        "pieces": {"done": 3, "active": 2, "left": 11, "set_aside": []},
        "repeated_rows": 0,
        "lost_pushes": 0,
        "checkpoint": {
            "step": 1000,
            "path": "x",
            "time": time.time() - 3600,
            "seconds": 1.25,
            "pause_seconds": 0.2,
            "cuts": 5,
        },
        "restarts": 1,
        "faults": ["pserver.0 died, killed by SIGKILL (9)"],
        **facts,
    }


def shown(directory: Path, status: dict[str, Any], *options: str, columns: int = 160) -> Any:
    (directory / "status.json").write_text(json.dumps(status), encoding="utf-8")
    return runner.invoke(app, ["status", str(directory), *options], env={"COLUMNS": str(columns)})


def words_of(result: Any) -> str:
    """What was printed, wherever its lines were broken."""
    return " ".join(result.output.split())


@pytest.mark.parametrize("columns", [30, 60, 80, 200])
def test_a_run_that_is_well(tmp_path: Path, columns: int) -> None:
    result = shown(tmp_path, status_of(), columns=columns)
    assert result.exit_code == 0
    for words in (
        "demo: training, async, ",
        "epoch 2 of 3, step 1,200, rows 1,200,000, 45,679 rows/s, loss 0.45000, auc 0.77000",
        "pieces of data: 3 done, 2 active, 11 left, 0 set aside",
        "1 restarts, 0 repeated rows, 0 lost pushes, generation 1",
        "checkpoint of step 1,000, 3,60",
        "s old, took 1.25 s, paused 0.2 s, 5 so far",
        "table embedding: 223,456 rows (pserver.0 123,456, pserver.1 100,000)",
        "table linear: 12 rows (pserver.0 7, pserver.1 5)",
        "22,000",
        "512",
        "pserver.0 died, killed by SIGKILL (9)",
    ):
        assert words in words_of(result)


@pytest.mark.parametrize(
    ("facts", "complaint"),
    [
        ({"members": [member("trainer", 1, state="slow", silent=12.0)]}, "trainer.1 is slow, silent for 12 s"),
        ({"members": [member("pserver", 0, state="dead", silent=31.0)]}, "pserver.0 is dead, silent for 31 s"),
        ({"time": time.time() - 60}, "nobody has written the status for"),
        ({"phase": "failed", "why": "trainer.1: no space"}, "the run failed: trainer.1: no space"),
        (
            {"pieces": {"done": 1, "set_aside": [{"piece": 3, "path": "day_1.tsv", "reason": "took down 3"}]}},
            "set aside: piece 3 of day_1.tsv: took down 3",
        ),
        (
            {"nodes": [{"node": 1, "rows": 900, "untrained_pieces": 2, "untrained_rows": 4000}]},
            "not trained: 2 pieces of node 1, which was gone; rows: 4,000",
        ),
        (
            {"nodes": [{"node": 0, "rows": 900, "untrained_pieces": 1, "untrained_rows": None}]},
            "not trained: 1 pieces of node 0, which was gone; rows: unknown",
        ),
    ],
)
def test_a_run_that_is_not_well_exits_with_1(tmp_path: Path, facts: dict[str, Any], complaint: str) -> None:
    result = shown(tmp_path, status_of(**facts))
    assert result.exit_code == 1
    assert complaint in result.output
    result = shown(tmp_path, status_of(**facts), "--json")
    found = json.loads(result.stdout)
    assert (result.exit_code, found["well"]) == (1, False)
    assert complaint in found["complaints"][0]


def test_a_run_that_has_finished_may_be_old(tmp_path: Path) -> None:
    old = status_of(time=time.time() - 9999, phase="finished", members=[member("trainer", 0, state="dead")])
    assert shown(tmp_path, old).exit_code == 0


def test_json_is_the_file_with_its_age_and_a_verdict(tmp_path: Path) -> None:
    status = status_of()
    found = json.loads(shown(tmp_path, status, "--json").stdout)
    assert 0.9 < found.pop("age") < 20
    assert (found.pop("well"), found.pop("complaints")) == (True, [])
    assert found == status


def test_little_is_enough_at_the_start(tmp_path: Path) -> None:
    assert shown(tmp_path, {"time": time.time(), "job": "demo", "phase": "starting", "members": []}).exit_code == 0


def test_watching_ends_with_the_run(tmp_path: Path) -> None:
    result = shown(tmp_path, status_of(phase="finished"), "--watch")
    assert result.exit_code == 0
    assert "demo: finished" in result.output


def test_a_job_file_stands_for_its_run(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(f"name: demo\noutput: {tmp_path}\n", encoding="utf-8")
    assert "has not been run" in runner.invoke(app, ["status", str(tmp_path / "job.yaml")]).stderr
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "status.json").write_text(json.dumps(status_of()), encoding="utf-8")
    assert runner.invoke(app, ["status", str(tmp_path / "job.yaml")]).exit_code == 0


@pytest.mark.parametrize(
    ("content", "message"), [(None, "has no status.json"), ("{", "cannot be read"), ("[]", "is not a status")]
)
def test_no_status_is_an_error(tmp_path: Path, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / "status.json").write_text(content, encoding="utf-8")
    result = runner.invoke(app, ["status", str(tmp_path)])
    assert result.exit_code == 1
    assert message in result.stderr


def test_what_is_neither_run_nor_job_is_an_error(tmp_path: Path) -> None:
    assert (
        "is neither a run's directory or URL, nor a job file, nor a checkpoint"
        in runner.invoke(app, ["status", str(tmp_path / "x")]).stderr
    )
