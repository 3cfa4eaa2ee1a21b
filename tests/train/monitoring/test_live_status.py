"""The status of a real run: what the coordinator writes is what the reference says, and `clickline status` shows it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.processes import run, small_settings, write_job

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "status.md").read_text(encoding="utf-8")
MEMBERS = PAGE.index("## Members")


@pytest.fixture(scope="module")
def finished(criteo: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a run of two servers and two trainers."""
    directory = tmp_path_factory.mktemp("live")
    settings = small_settings(criteo, directory) | {"cluster": {"pservers": 2, "trainers": 2, "threads": 1}}
    done = run("train", write_job(directory / "job.yaml", settings))
    assert done.returncode == 0, done.stderr
    return directory / "runs" / "small"


def keys(part: str) -> Iterator[str]:
    """What a table's first column names."""
    for row in re.findall(r"^\| (`.*?) \|", part, flags=re.MULTILINE):
        yield from re.findall(r"`(\w+)`", row)


def members(status: dict[str, Any], role: str) -> list[dict[str, Any]]:
    return [member for member in status["members"] if member["role"] == role]


def test_the_reference_has_every_key_and_no_other(finished: Path) -> None:
    status = json.loads((finished / "status.json").read_text(encoding="utf-8"))
    assert set(keys(PAGE[:MEMBERS])) == set(status)
    assert set(keys(PAGE[MEMBERS:])) == {key for member in status["members"] for key in member} | {"metrics"}
    for inner in (status["pieces"], status["checkpoint"], members(status, "pserver")[0]["counters"]):
        for key in inner:
            assert f"`{key}`" in PAGE


def test_everybody_is_there_and_says_how_they_are(finished: Path) -> None:
    status = json.loads((finished / "status.json").read_text(encoding="utf-8"))
    names = ["coordinator.0", "pserver.0", "pserver.1", "trainer.0", "trainer.1"]
    assert {member["name"]: member["state"] for member in status["members"]} == dict.fromkeys(names, "done")
    assert all(member["memory_mib"] > 10 for member in status["members"])
    assert all(sum(server["tables"].values()) > 100 for server in members(status, "pserver"))
    assert all(server["staleness"] >= 0 for server in members(status, "pserver"))
    assert all({"queue", "retries", "rows_per_second"} <= set(trainer) for trainer in members(status, "trainer"))
    assert (status["phase"], status["epoch"], status["rows"]) == ("finished", 1, 4500)
    assert (status["checkpoint"]["step"], status["checkpoint"]["cuts"]) == (status["step"], 1)
    assert status["checkpoint"]["seconds"] >= status["checkpoint"]["pause_seconds"] > 0


def test_the_verb_shows_it(finished: Path) -> None:
    status = json.loads((finished / "status.json").read_text(encoding="utf-8"))
    done = run("status", finished)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "small: finished, async" in done.stdout
    assert f"epoch 1 of 1, step {status['step']}, rows 4,500" in done.stdout
    assert f"test auc {status['test']['auc']:.5f}" in done.stdout
    assert f"checkpoint of step {status['step']}" in done.stdout
    rows = [server["tables"]["embedding"] for server in members(status, "pserver")]
    assert f"table embedding: {sum(rows):,} rows (pserver.0 {rows[0]:,}, pserver.1 {rows[1]:,})" in done.stdout
    for member in status["members"]:
        assert member["name"] in done.stdout
