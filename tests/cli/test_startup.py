"""Verbs that compute nothing do not wait for PyTorch. How long they take is measured by benchmarks/startup.py."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

CHECK = """
import sys
heavy = sys.argv[1].split(",")
sys.argv = ["clickline", *sys.argv[2:]]
from clickline.cli import main
code = 0
try:
    main()
except SystemExit as end:
    code = end.code
print("loaded:", *(name for name in heavy if name in sys.modules), "code:", code, file=sys.stderr)
"""
HEAVY = "torch,onnx,onnxruntime,pyarrow,grpc,uvicorn"


def loaded_by(directory: Path, *arguments: str, heavy: str) -> tuple[list[str], str]:
    """Which of the heavy packages a verb has loaded, and its exit code."""
    done = subprocess.run(
        [sys.executable, "-c", CHECK, heavy, *arguments], cwd=directory, capture_output=True, text=True, check=False
    )
    last = done.stderr.splitlines()[-1]
    assert last.startswith("loaded:"), done.stderr
    names, code = last.removeprefix("loaded:").split("code:")
    return names.split(), code.strip()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    run = tmp_path / "runs" / "demo"
    (run / "logs").mkdir(parents=True)
    (run / "logs" / "trainer.0.log").write_text("2026-01-01T00:00:00Z INFO trainer.0 began\n")
    (run / "status.json").write_text(json.dumps({"job": "demo", "phase": "finished", "time": 0}))
    (tmp_path / "versions").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["train", "--help"],
        ["status", "runs/demo"],
        ["status", "runs/demo", "--json"],
        ["logs", "--run", "runs/demo"],
        ["down", "runs"],
        ["versions", "list", "versions"],
    ],
    ids=" ".join,
)
def test_a_verb_that_computes_nothing_loads_nothing_heavy(place: Path, arguments: list[str]) -> None:
    assert loaded_by(place, *arguments, heavy=f"{HEAVY},numpy") == ([], "0")


def test_a_verb_does_not_load_the_others(place: Path) -> None:
    others = "clickline.cli.verbs.training.train,clickline.cli.verbs.suite.status,clickline.cli.verbs.clients.bench"
    assert loaded_by(place, "down", "runs", heavy=others) == ([], "0")


@pytest.mark.parametrize(
    "arguments", [["runs", "runs"], ["explain", "job.yaml"], ["data", "--help"], ["doctor", "--help"]], ids=" ".join
)
def test_a_verb_that_reads_jobs_does_not_load_pytorch(place: Path, arguments: list[str]) -> None:
    (place / "job.yaml").write_text("name: demo\nmodel: {name: deepfm}\n")
    assert loaded_by(place, *arguments, heavy="torch,onnx,onnxruntime,grpc") == ([], "0")


@pytest.mark.parametrize(
    "job",
    [
        "model: {name: deepfm}\ndata: {format: criteo}\n",
        "model: {name: wide_deep, hidden: [64]}\ndata: {format: csv, train: log.csv}\nfeatures: {slots: [C1]}\n",
        "model: {name: mmoe}\ndata: {format: slots}\nfeatures: {slots: [1, 2], labels: [click, buy]}\n",
    ],
)
def test_validate_loads_nothing_heavy(place: Path, job: str) -> None:
    (place / "log.csv").write_text("label,C1\n1,a\n")
    (place / "job.yaml").write_text(f"name: demo\n{job}")
    assert loaded_by(place, "validate", "job.yaml", heavy=f"{HEAVY},numpy") == ([], "0")


@pytest.mark.parametrize(
    "model", ["{name: wide_deep, params: {wide_slots: [C1]}}", "{name: fibinet}", "{name: finalmlp}"]
)
def test_a_model_that_must_be_built_is_built_without_pytorchs_compiler(place: Path, model: str) -> None:
    (place / "job.yaml").write_text(f"data: {{format: criteo}}\nmodel: {model}\n")
    assert loaded_by(place, "validate", "job.yaml", heavy="torch,torch._dynamo,onnx,grpc") == (["torch"], "0")
