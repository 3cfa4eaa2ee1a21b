"""`clickline train` in the environment of the older stack: its flags count, its names of ranks are understood."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from clickline.cli.all_verbs import app
from clickline.config import Job
from clickline.launch.local import training_run
from clickline.processes import child

ENDPOINTS = "10.0.0.1:6170,10.0.0.2:6170"


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Job, dict[str, str]]]:
    """Jobs that would have been trained, each with the environment it was started in."""
    found: list[tuple[Job, dict[str, str]]] = []

    def train_job(job: Job, **named: Any) -> SimpleNamespace:
        found.append((job, dict(os.environ)))
        return SimpleNamespace(rows=0, seconds=0.0, steps=0, test={}, checkpoint=Path("c"), shown_checkpoint="c")

    monkeypatch.setattr(training_run, "train_job", train_job)
    monkeypatch.setattr(os, "environ", dict(os.environ))  # what the verb adds is gone with the test
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        os.environ.pop(name, None)
    return found


@pytest.fixture
def job(tmp_path: Path) -> str:
    file = tmp_path / "job.yaml"
    log = tmp_path / "log.tsv"
    log.write_bytes(b"1\n")
    text = f"data: {{train: {log}}}\ncluster: {{pservers: 1, agree: {{merge: 2}}}}\n"
    file.write_text(text, encoding="utf-8")
    return str(file)


def test_flags_count_more_than_the_file_and_less_than_set(given: list[Any], job: str) -> None:
    os.environ |= {"FLAGS_communicator_max_merge_var_num": "20", "FLAGS_rpc_deadline": "5000"}
    result = CliRunner().invoke(app, ["train", job, "--set", "cluster.deadline=7"])
    assert result.exit_code == 0, result.output
    assert (given[0][0].cluster.agree.merge, given[0][0].cluster.deadline) == (20, 7)


def test_dead_flags_are_reported_once(given: list[Any], job: str) -> None:
    os.environ |= {"FLAGS_rpc_retry_times": "3"}
    said = "FLAGS_rpc_retry_times has no effect"
    assert CliRunner().invoke(app, ["train", job]).stderr.count(said) == 1
    os.environ["RANK"] = "1"  # another rank of the same job has said it
    assert said not in CliRunner().invoke(app, ["train", job]).stderr


def test_a_launcher_has_put_the_flags_into_the_job(given: list[Any], job: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "_launched", True)
    os.environ |= {"FLAGS_communicator_max_merge_var_num": "20", "FLAGS_rpc_retry_times": "3"}
    result = CliRunner().invoke(app, ["train", job])
    assert given[0][0].cluster.agree.merge == 2
    assert "no effect" not in result.stderr


@pytest.mark.parametrize("strategy", ["collective", "async"])
def test_older_endpoints_are_ranks_where_trainers_are_alone(given: list[Any], job: str, strategy: str) -> None:
    os.environ |= {"PADDLE_TRAINER_ENDPOINTS": ENDPOINTS, "PADDLE_TRAINER_ID": "1"}
    CliRunner().invoke(
        app, ["train", job, "--set", f"strategy={strategy}", "--set", f"cluster.pservers={int(strategy == 'async')}"]
    )
    names = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    expected = ["1", "2", "10.0.0.1", "6170"] if strategy == "collective" else [None] * 4
    assert [given[0][1].get(name) for name in names] == expected


@pytest.mark.parametrize(
    ("strategy", "silent", "told"),
    [
        ("async", "FLAGS_communicator_send_queue_size", "FLAGS_communicator_max_merge_var_num"),
        ("half_async", "FLAGS_communicator_max_merge_var_num", "FLAGS_communicator_send_queue_size"),
        ("geo", "geo_sgd_need_push_nums", "FLAGS_communicator_min_send_grad_num_before_recv"),
    ],
)
def test_a_flag_without_effect_under_the_strategy_is_named(
    given: list[Any], job: str, strategy: str, silent: str, told: str
) -> None:
    os.environ |= {silent: "3", told: "3"}
    result = CliRunner().invoke(app, ["train", job, "--set", f"strategy={strategy}"], env={"COLUMNS": "300"})
    assert result.exit_code == 0, result.output
    (line,) = [line for line in result.stderr.splitlines() if told in line]
    assert "has no effect: only " in line
    assert f"this run is {strategy}" in line
    assert silent not in result.stderr
