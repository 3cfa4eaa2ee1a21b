"""`clickline publish`, `versions` and `rollback`: what they print, for people and programs, and how they fail."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from clickline.cli.all_verbs import app
from clickline.versions.store import Store
from support.versions.trained_run import Training

runner = CliRunner()


def run(*arguments: str | Path) -> tuple[int, str, str]:
    result = runner.invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "160"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


def as_json(*arguments: str | Path, code: int = 0) -> Any:
    seen, out, err = run(*arguments, "--json")
    assert seen == code, out + err
    return json.loads(out)


@pytest.mark.heavy
def test_publishing_prints_what_was_published(training: Training, tmp_path: Path) -> None:
    facts = as_json("publish", training.run, "--to", tmp_path / "store", "--sample-rows", "32")
    assert (facts["version"], facts["kind"], facts["parent"], facts["dtype"]) == (1, "base", None, "fp32")
    assert facts["training"]["step"] == 45
    assert facts["parity"]["rows"] == 32
    code, out, err = run("publish", training.checkpoints[-1], "--to", tmp_path / "store", "--dtype", "fp16")
    assert code == 0, err
    assert re.search(r"version 2 \(base\) of step 45: [\d,]+ bytes", out)
    assert re.search(r"embedding: [\d,]+ rows; [\d,]+ in all, fp16 × 4", out)
    assert "a base, since: this model: table" in err.replace("\n", " ")
    assert re.search(r"AUC 0\.\d+ before, 0\.\d+ with fp16 rows", err)


def test_a_run_without_a_checkpoint_is_code_6(tmp_path: Path) -> None:
    code, out, err = run("publish", tmp_path, "--to", tmp_path / "store")
    assert (code, out) == (6, "")
    assert "no complete checkpoint there; expected a run's directory" in err
    assert not (tmp_path / "store").exists()


def test_a_run_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    code, _, err = run("publish", tmp_path / "nowhere", "--to", tmp_path / "store")
    assert code == 1
    assert "neither a run's directory or URL, nor a job file, nor a checkpoint" in err


@pytest.mark.parametrize("verb", [("publish", ".", "--to"), ("versions", "list"), ("rollback",)])
def test_an_unknown_protocol_lists_the_known_ones(verb: tuple[str, ...]) -> None:
    error = as_json(*verb, "floppy://a/b", code=8)["error"]
    assert error["type"] == "VersionError"
    assert "floppy" in error["message"]
    assert "known protocols: file, memory, s3" in error["message"]


@pytest.mark.parametrize(
    "option", [("--dtype", "fp8"), ("--kind", "patch"), ("--sample-rows", "0"), ("--storage", "x")]
)
def test_wrong_options_are_code_2(option: tuple[str, str], training: Training, tmp_path: Path) -> None:
    code, _, err = run("publish", training.run, "--to", tmp_path / "store", *option)
    assert code == 2
    assert option[0] in err


def test_a_store_that_is_a_file_is_refused(training: Training, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    code, _, err = run("publish", training.run, "--to", tmp_path / "file")
    assert code == 8
    assert "a file, not a directory" in err


def test_a_delta_on_nothing_is_code_8(training: Training, tmp_path: Path) -> None:
    code, _, err = run("publish", training.run, "--to", tmp_path / "store", "--kind", "delta")
    assert code == 8
    assert "publish a base (--kind base)" in err


@pytest.mark.parametrize("verb", [("list",), ("show",), ("verify",), ("diff", "1", "2"), ("keep", "1")])
def test_a_store_that_is_not_there_is_code_8(verb: tuple[str, ...], tmp_path: Path) -> None:
    name, *rest = verb
    code, _, err = run("versions", name, tmp_path / "nowhere", *rest)
    assert code == 8
    assert "there is no such store" in err


def test_listing(filled: Store) -> None:
    found = as_json("versions", "list", filled.url)
    assert [(one["version"], one["kind"], one["parent"], one["serving"]) for one in found] == [
        (1, "base", None, False),
        (2, "delta", 1, False),
        (3, "delta", 2, True),
    ]
    code, out, _ = run("versions", "list", filled.url)
    assert code == 0
    assert re.search(r"3 \*\s+│ delta\s+│ 2\s", out)


def test_showing(filled: Store) -> None:
    assert as_json("versions", "show", filled.url)["version"] == 3
    assert as_json("versions", "show", filled.url, "1")["files"].keys() == {
        "embedding.dict", "linear.dict", "network.onnx", "sample.safetensors"
    }  # fmt: skip
    code, out, _ = run("versions", "show", filled.url, "2")
    assert code == 0
    assert "training.job_digest" in out


def test_verifying(filled: Store) -> None:
    facts = as_json("versions", "verify", filled.url, "--sample")
    assert (facts["ok"], facts["version"], facts["files"]) == (True, 3, 15)
    assert facts["max_difference"] <= 1e-5
    assert filled.directory is not None
    (filled.directory / "v0000000002" / "linear.dict").write_bytes(b"")
    error = as_json("versions", "verify", filled.url, code=8)["error"]
    assert "v0000000002/linear.dict: damaged: 0 bytes" in error["message"]
    assert as_json("versions", "verify", filled.url, "1")["ok"]


def test_comparing(filled: Store) -> None:
    facts = as_json("versions", "diff", filled.url, "1", "3", code=1)
    assert facts["tables"]["embedding"]["rows changed"] > 0
    assert as_json("versions", "diff", filled.url, "2", "2")["same"]
    code, out, _ = run("versions", "diff", filled.url, "1", "2")
    assert code == 1
    assert "network: parameters differ by at most" in out


def test_keeping(filled: Store) -> None:
    assert as_json("versions", "keep", filled.url, "1") == {"store": filled.url, "removed": []}
    assert "nothing to remove" in run("versions", "keep", filled.url, "1")[1]
    assert run("versions", "keep", filled.url, "0")[0] == 2


def test_rolling_back(filled: Store) -> None:
    assert as_json("rollback", filled.url) == {"store": filled.url, "serving": 2, "before": 3}
    assert "version 1 is the one to serve; it was 2" in run("rollback", filled.url, "--to", "1")[1]
    assert "no version before 1" in as_json("rollback", filled.url, code=8)["error"]["message"]


def test_a_garbled_donefile_is_named(filled: Store) -> None:
    assert filled.directory is not None
    with (filled.directory / "versions.jsonl").open("ab") as file:
        file.write(b"{garbled\n")
    assert "versions.jsonl, line 4: garbled" in as_json("versions", "list", filled.url, code=8)["error"]["message"]
