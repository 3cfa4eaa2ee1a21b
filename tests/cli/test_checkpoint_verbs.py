"""`clickline checkpoint show`, `verify` and `diff`: what they print, for people and programs, and how they fail."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from clickline.cli.all_verbs import app
from clickline.config import Job
from clickline.publish.checkpoint_source import open_checkpoint_source
from clickline.train.session import train_job
from support.made_once import made_once
from support.processes import small_settings

runner = CliRunner()


@pytest.fixture(scope="module")
def checkpoints(criteo: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Of one run, oldest first."""

    def train(directory: Path) -> None:
        settings = small_settings(criteo, directory)
        settings["checkpoint"] = {"every_steps": 10, "keep": 10}
        settings["train"] = {"batch_size": 100, "log_every": 10, "epochs": 1, "max_steps": 20}
        train_job(Job.model_validate(settings))

    run_directory = made_once(tmp_path_factory, "checkpoint-verbs", train) / "runs" / "small"
    return sorted((run_directory / "checkpoints").glob("step-*"))


def run(*arguments: str | Path) -> tuple[int, str, str]:
    result = runner.invoke(app, ["checkpoint", *map(str, arguments)], env={"COLUMNS": "200"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


def as_json(*arguments: str | Path, code: int = 0) -> Any:
    seen, out, err = run(*arguments, "--json")
    assert seen == code, out + err
    return json.loads(out)


def shown(out: str) -> dict[str, str]:
    """The rows of a printed table of two columns."""
    return dict(re.findall(r"^│ (.*?) +│ (.*?) +│$", out, flags=re.MULTILINE))


def test_show_says_what_a_checkpoint_holds(checkpoints: list[Path]) -> None:
    path = checkpoints[-1]
    facts = as_json("show", path)
    tables = open_checkpoint_source(path, threads=1).learner.sparse.tables
    assert (facts["path"], facts["step"], facts["rows_trained"], facts["model"]) == (str(path), 20, 2000, "deepfm")
    assert {name: one["rows"] for name, one in facts["tables"].items()} == {
        name: len(table) for name, table in tables.items()
    }
    assert facts["disk_bytes"] == sum(file.stat().st_size for file in path.iterdir() if file.name != "manifest.json")
    code, out, _ = run("show", path)
    assert code == 0
    printed = shown(out)
    assert printed["step"] == "20"
    assert printed["rows_trained"] == "2,000"
    assert printed["tables.embedding.rows"] == f"{len(tables['embedding']):,}"
    assert printed["disk_bytes"] == f"{facts['disk_bytes']:,}"


def test_verify_finds_a_whole_checkpoint_whole(checkpoints: list[Path]) -> None:
    path = checkpoints[0]
    assert as_json("verify", path) == {"path": str(path), "ok": True, "step": 10}
    files = len(list(path.iterdir())) - 1
    code, out, _ = run("verify", path)
    assert (code, out) == (0, f"{path}: {files} files, all as the manifest says\n")


def test_verify_names_each_file_that_is_damaged(checkpoints: list[Path], tmp_path: Path) -> None:
    for file in sorted(path.name for path in checkpoints[0].iterdir()):
        place = Path(shutil.copytree(checkpoints[0], tmp_path / f"with-another-{file}"))
        content = bytearray((place / file).read_bytes())
        content[len(content) // 2] ^= 1
        (place / file).write_bytes(content)
        code, out, err = run("verify", place)
        assert (code, out) == (6, "")
        assert f"{place}/{file}" in err.replace("\n", "")
    assert as_json("verify", place, code=6)["error"]["exit_code"] == 6


def test_diff_counts_what_differs(checkpoints: list[Path]) -> None:
    one, other = (open_checkpoint_source(path, threads=1).learner.sparse.tables["embedding"] for path in checkpoints)
    both = np.intersect1d(one.keys(), other.keys())
    facts = as_json("diff", *checkpoints, code=1)
    assert (facts["same"], facts["steps"]) == (False, "10 and 20")
    assert facts["tables"]["embedding"] == {
        "rows added": len(np.setdiff1d(other.keys(), one.keys())),
        "rows removed": len(np.setdiff1d(one.keys(), other.keys())),
        "rows changed": int((one.rows(both) != other.rows(both)).any(axis=1).sum()),
    }
    assert facts["tables"]["embedding"]["rows changed"] > 0
    assert all(value.startswith("max |difference| ") for value in facts["parameters"].values())
    code, out, _ = run("diff", *checkpoints)
    assert code == 1
    printed = shown(out)
    assert (printed["same"], printed["steps"]) == ("False", "10 and 20")
    assert printed["tables.embedding.rows added"] == f"{facts['tables']['embedding']['rows added']:,}"


def test_a_checkpoint_does_not_differ_from_its_copy(checkpoints: list[Path], tmp_path: Path) -> None:
    copied = Path(shutil.copytree(checkpoints[0], tmp_path / "copy"))
    facts = as_json("diff", checkpoints[0], copied)
    assert (facts["same"], facts["parameters"]) == (True, {})
    assert not any(count for table in facts["tables"].values() for count in table.values())


@pytest.mark.parametrize("verb", ["show", "verify", "diff"])
def test_no_checkpoint_there_is_code_6(verb: str, tmp_path: Path) -> None:
    places = [tmp_path, tmp_path] if verb == "diff" else [tmp_path]
    code, out, err = run(verb, *places)
    assert (code, out) == (6, "")
    assert "no checkpoint here (no manifest.json); expected a directory such as" in err.replace("\n", " ")
    assert "no checkpoint here" in as_json(verb, *places, code=6)["error"]["message"]
    assert run(verb)[0] == 2


def test_a_manifest_that_is_none_is_code_6(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"format": 99}')
    assert "not a manifest of format" in as_json("show", tmp_path, code=6)["error"]["message"]
