"""`clickline runs` and `clickline compare`: runs by their state and figures, and how two of them differ."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from clickline.cli.all_verbs import app
from clickline.config import Job
from clickline.files.atomic import replace_json
from clickline.train.session import train_job
from support.made_once import made_once
from support.processes import small_settings, write_job


def settings(criteo: dict[str, str], directory: Path, name: str, rate: float) -> dict[str, Any]:
    train = {"batch_size": 100, "epochs": 1, "max_steps": 10, "optimizer": {"name": "adam", "learning_rate": rate}}
    return {**small_settings(criteo, directory), "name": name, "train": train}


@pytest.fixture(scope="module")
def trained(criteo: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs that differ in the learning rate, and their job files."""

    def train(directory: Path) -> None:
        for name, rate in (("slow", 0.001), ("fast", 0.01)):
            train_job(Job.model_validate(settings(criteo, directory, name, rate)))
            write_job(directory / f"{name}.yaml", settings(criteo, directory, name, rate))

    return made_once(tmp_path_factory, "two-runs", train)


def ask(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, list(map(str, arguments)), env={"COLUMNS": "300"})


def said(*arguments: str | Path) -> Any:
    result = ask(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def result_of(trained: Path, name: str) -> dict[str, Any]:
    return json.loads((trained / "runs" / name / "result.json").read_text(encoding="utf-8"))


def test_runs_are_listed_with_their_figures_the_last_one_first(trained: Path) -> None:
    found = said("runs", trained / "runs")
    assert [Path(one["path"]).name for one in found] == ["fast", "slow"]
    for one in found:
        result = result_of(trained, one["name"])
        assert (one["state"], one["strategy"], one["model"]) == ("finished", "single", "deepfm")
        assert (one["epoch"], one["epochs"], one["steps"], one["rows"]) == (1, 1, 10, 1000)
        assert (one["test"], one["valid"]) == (result["test"], result["valid"])
        assert 0 <= time.time() - one["time"] < 86_400
        assert one["problem"] is None
    shown = ask("runs", trained / "runs")
    assert shown.exit_code == 0, shown.output
    line = next(line for line in shown.stdout.splitlines() if "slow" in line)
    test = result_of(trained, "slow")["test"]
    assert {"finished", "single", "deepfm", "1/1", "1,000"} <= set(line.split())
    assert f"{test['auc']:.5f}" in line
    assert f"{test['logloss']:.5f}" in line


def test_a_run_a_job_file_and_a_checkpoint_name_the_same_run(trained: Path) -> None:
    run = trained / "runs" / "slow"
    checkpoint = next((run / "checkpoints").glob("step-*"))
    for where in (run, trained / "slow.yaml", run / "job.json", checkpoint):
        (one,) = said("runs", where)
        assert (one["name"], one["steps"], one["rows"]) == ("slow", 10, 1000)
        assert one["test"] == result_of(trained, "slow")["test"]
    assert one["state"] == "checkpoint"


def test_two_runs_are_compared_by_job_and_figures(trained: Path) -> None:
    checkpoint = next((trained / "runs" / "fast" / "checkpoints").glob("step-*"))
    for one, other in (("runs/slow", "runs/fast"), ("slow.yaml", "fast.yaml"), ("runs/slow", checkpoint)):
        found = said("compare", trained / one, trained / other)
        assert {row["key"]: row["values"] for row in found["job"]} == {
            "name": ["slow", "fast"],
            "train.optimizer.learning_rate": [0.001, 0.01],
        }
        both = [result_of(trained, name)["test"]["auc"] for name in ("slow", "fast")]
        assert found["figures"]["test"]["auc"] == {"values": both, "difference": both[1] - both[0]}
    shown = ask("compare", trained / "runs" / "slow", trained / "runs" / "fast").stdout
    assert "train.optimizer.learning_rate" in shown
    assert f"{both[0]:.5f}" in shown
    assert f"{both[1] - both[0]:+.5f}" in shown
    assert "the jobs are the same" in ask("compare", trained / "runs" / "slow", trained / "slow.yaml").stdout


def test_slots_are_compared_one_by_one_and_a_job_that_was_not_run_by_its_keys(tmp_path: Path) -> None:
    files = []
    for name, pooling in (("one", "sum"), ("two", "mean")):
        slots = [{"name": "a"}, {"name": "b", "pooling": pooling}]
        files.append(
            write_job(
                tmp_path / f"{name}.yaml",
                {
                    "output": str(tmp_path / "runs"),
                    "data": {"format": "csv", "train": ["log.csv"]},
                    "features": {"labels": ["click"], "slots": slots},
                },
            )
        )
    found = said("compare", *files)
    assert {row["key"]: row["values"] for row in found["job"]}["features.slots[1].pooling"] == ["sum", "mean"]
    assert [one["state"] for one in found["runs"]] == ["not run", "not run"]
    assert found["figures"] == {}


def test_a_run_that_goes_on_is_not_told_by_its_earlier_result(tmp_path: Path) -> None:
    for name, age in (("live", 0.0), ("killed", 60.0)):
        directory = tmp_path / name
        directory.mkdir()
        (directory / "result.json").write_text('{"test": {"auc": 0.9}, "rows": 5, "steps": 1}')
        status = {"phase": "training", "time": time.time() - age, "epoch": 2, "epochs": 3, "rows": 70, "step": 7}
        replace_json(directory / "status.json", {**status, "auc": 0.6, "test": {}, "strategy": "async"})
    found = {one["name"]: one for one in said("runs", tmp_path)}
    assert (found["live"]["state"], found["killed"]["state"]) == ("training", "lost")
    assert (found["live"]["rows"], found["live"]["test"], found["live"]["valid"]) == (70, {}, {"auc": 0.6})


def test_one_damaged_run_does_not_hide_the_others(trained: Path, tmp_path: Path) -> None:
    (tmp_path / "good").symlink_to(trained / "runs" / "slow")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "job.json").write_text("{")
    (tmp_path / "no-run").mkdir()
    found = {Path(one["path"]).name: one for one in said("runs", tmp_path)}
    assert set(found) == {"good", "bad"}
    assert "job.json: cannot be read" in found["bad"]["problem"]
    assert "job.json: cannot be read" in ask("runs", tmp_path).stderr


@pytest.mark.parametrize("arguments", [["runs", "{}"], ["runs", "{}/none"], ["compare", "{}", "{}"]])
def test_where_there_is_no_run_an_error_says_so(arguments: list[str], tmp_path: Path) -> None:
    result = ask(*(one.format(tmp_path) for one in arguments))
    assert result.exit_code == 1
    assert "there is no" in result.stderr or "is not the directory of a run" in result.stderr


@pytest.mark.parametrize("verb", [["runs", "runs"], ["compare", "runs/slow", "fast.yaml"]])
def test_pytorch_is_not_loaded(verb: list[str], trained: Path) -> None:
    code = "import sys\nfrom clickline.cli.all_verbs import app\n"
    code += "app(sys.argv[1:], standalone_mode=False)\nsys.exit(3 * ('torch' in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code, *verb], cwd=trained, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "slow" in done.stdout
