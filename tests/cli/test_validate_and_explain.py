"""clickline validate and clickline explain, as a user and as a program sees them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from clickline.cli.all_verbs import app

runner = CliRunner()
IDLE = "data.storage, line 4: has no effect: no path of data is a URL of another file system\n"


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("S3_SECRET", "hunter2")
    (tmp_path / "day_0.gz").write_bytes(b"")
    file = tmp_path / "job.yaml"
    file.write_text(
        "name: a\n"
        "data:\n"
        "  train: day_0.gz\n"
        '  storage: {secret: "${env:S3_SECRET}"}\n'
        "features: {slots: [C1, C2]}\n"
        "train: {epochs: 2}\n",
        encoding="utf-8",
    )
    return str(file)


def test_a_valid_job_is_said_to_be(job: str) -> None:
    result = runner.invoke(app, ["validate", job])
    assert (result.exit_code, result.stdout, result.stderr) == (0, f"{job} is valid\nits run will be in runs/a\n", IDLE)


def test_of_a_job_that_a_run_wrote_only_changed_keys_are_reported(job: str, tmp_path: Path) -> None:
    """Such a file names every key there is."""
    run = tmp_path / "runs" / "a"
    (run / "checkpoints").mkdir(parents=True)
    (run / "job.json").write_text(json.dumps({"name": "a", "data": {"train": ["day_0.gz"], "delimiter": ","}}))
    result = runner.invoke(app, ["validate", str(run / "job.json"), "--set", "data.header=true"])
    assert result.exit_code == 0
    assert result.stderr == "data.header, --set: has no effect: only the format csv reads it\n"


def test_what_is_missing_for_training_is_a_note_not_an_error(job: str) -> None:
    result = runner.invoke(app, ["validate", job, "--set", "data.train=[]"])
    assert (result.exit_code, result.stdout) == (0, f"{job} is valid\nits run will be in runs/a\n")
    assert result.stderr == f"cannot be trained yet: data.train is empty; training needs files\n{IDLE}"


def test_mistakes_are_listed_and_exit_with_3(job: str) -> None:
    result = runner.invoke(app, ["validate", job, "--set", "train.epochs=0", "--set", "model.nam=x"])
    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr.splitlines() == [
        f"{job}: 2 errors",
        "  model.nam, --set: unknown key; did you mean name?",
        "  train.epochs, --set: 0 is too small; must be at least 1",
    ]


def test_a_model_that_does_not_exist_is_a_mistake(job: str) -> None:
    result = CliRunner().invoke(app, ["validate", job, "--set", "model.name=deepfmm"])
    assert result.exit_code == 3
    assert "did you mean deepfm?" in " ".join(result.output.split())


def test_validate_speaks_json(job: str) -> None:
    result = runner.invoke(app, ["validate", job, "--json"])
    told = json.loads(result.stdout)
    notice = {"key": "data.storage", "line": 4, "column": None, "override": False}
    assert told.pop("without_effect") == [
        {**notice, "message": "has no effect: no path of data is a URL of another file system"}
    ]
    assert told == {"valid": True, "path": job, "run": "runs/a", "missing_for_training": []}
    result = runner.invoke(app, ["validate", job, "--json", "--set", "train.epochs=0"])
    assert result.exit_code == 3
    error = json.loads(result.stdout)["error"]
    assert (error["type"], error["exit_code"]) == ("JobError", 3)
    assert error["errors"][0]["key"] == "train.epochs"


@pytest.mark.parametrize("verb", ["validate", "explain"])
def test_where_the_run_will_be_is_said(verb: str, job: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLICKLINE_CACHE", str(tmp_path / "cache"))
    result = runner.invoke(app, [verb, job, "--set", "output=s3://bucket/runs"])
    assert result.exit_code == 0, result.output
    line = next(line for line in result.stdout.splitlines() if line.startswith("its run will be"))
    assert line.startswith(f"its run will be at s3://bucket/runs/a, with a local copy in {tmp_path}/cache/runs/")
    assert "its run will be in runs/a" in runner.invoke(app, [verb, job]).stdout.splitlines()


def test_explain_shows_value_and_origin(job: str) -> None:
    result = runner.invoke(app, ["explain", job, "--set", "model.name=dcn"])
    assert result.exit_code == 0
    lines = {line.split()[0]: line.split()[1:] for line in result.stdout.splitlines()}
    assert lines["key"] == ["value", "origin"]
    assert lines["train.epochs"] == ["2", "file", "line", "6"]
    assert lines["model.name"] == ["dcn", "override"]
    assert lines["seed"] == ["1", "default"]
    assert lines["features.slots[1].name"] == ["C2", "file", "line", "5"]
    assert "features.slots[1].pooling" not in lines
    assert "features.slots[1].pooling" in runner.invoke(app, ["explain", job, "--all"]).stdout


def test_explain_speaks_json(job: str) -> None:
    rows = json.loads(runner.invoke(app, ["explain", job, "--json"]).stdout)
    assert {"key": "data.train", "value": ["day_0.gz"], "origin": "file line 3"} in rows
    assert {"key": "features.weight", "value": None, "origin": "default"} in rows


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_explain_never_shows_a_secret(job: str, options: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("S3_SECRET", "hunter2")
    output = runner.invoke(app, ["explain", job, *options]).output
    assert "${env:S3_SECRET}" in output
    assert "hunter2" not in output


def test_the_real_program_reports_a_wrong_job(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("trian: {}\n", encoding="utf-8")
    command = [sys.executable, "-m", "clickline", "validate", str(file)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 3
    assert result.stdout == ""
    assert result.stderr == f"{file}: 1 error\n  trian, line 1: unknown key; did you mean train?\n"
