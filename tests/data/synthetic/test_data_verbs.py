"""`clickline data`: one verb for each kind of log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from clickline.cli.all_verbs import app

runner = CliRunner()


def test_a_verb_writes_what_the_function_does(tmp_path: Path, kind: Any) -> None:
    out = tmp_path / "cli" / f"log{kind.suffix}"
    result = runner.invoke(app, ["data", kind.name, "--rows", "1000", "--seed", "3", "--out", str(out)])
    assert (result.exit_code, result.stderr) == (0, "")
    assert f"train: {out.parent / 'log'}.train{kind.suffix}" in result.stdout
    assert "1,000 rows, click rate of the test rows" in result.stdout
    assert result.stdout.endswith(f"next: clickline train {out.parent / 'log.job.yaml'}\n")
    kind.write(tmp_path / "function" / "log", rows=1000, seed=3, test_rows=200)
    for part in ("train", "test"):
        name = f"log.{part}{kind.suffix}"
        assert (tmp_path / "cli" / name).read_bytes() == (tmp_path / "function" / name).read_bytes()


def test_json_is_what_the_truth_file_holds(tmp_path: Path, kind: Any) -> None:
    arguments = ["--rows", "1000", "--test-rows", "0", "--files", "2", "--compress", "zstd", "--json"]
    result = runner.invoke(app, ["data", kind.name, *arguments, "--out", str(tmp_path / "log")])
    assert result.exit_code == 0
    facts = json.loads(result.stdout)
    assert facts == json.loads((tmp_path / "log.json").read_text())
    assert facts["options"].items() >= {"test_rows": 0, "files": 2, "compress": "zstd"}.items()
    assert facts["files"]["train"] == [str(tmp_path / f"log.train-0{i}{kind.suffix}.zst") for i in range(2)]


def test_overwriting_needs_force(tmp_path: Path, kind: Any) -> None:
    arguments = ["data", kind.name, "--rows", "100", "--out", str(tmp_path / "log")]
    assert runner.invoke(app, arguments).exit_code == 0
    refused = runner.invoke(app, arguments)
    assert refused.exit_code == 4
    assert "--force" in refused.stderr
    assert runner.invoke(app, [*arguments, "--force"]).exit_code == 0


def test_the_number_of_ids_can_be_chosen(tmp_path: Path) -> None:
    arguments = ["data", "criteo", "--rows", "100", "--out", str(tmp_path / "log"), "--json"]
    facts = json.loads(runner.invoke(app, [*arguments, "--ids", "30000"]).stdout)
    assert facts["options"]["ids"] == 30_000
    refused = runner.invoke(app, [*arguments, "--ids", "10"])
    assert refused.exit_code == 4
    assert "ids is 10" in json.loads(refused.stdout)["error"]["message"]
