"""What several tests need: small synthetic data, and the command line as a real process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from clickline.config import Job

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}


@pytest.fixture(scope="session")
def criteo(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Train and test files of synthetic Criteo text."""
    from clickline.data.synthetic import write_criteo

    directory = tmp_path_factory.mktemp("criteo")
    write_criteo(directory / "data.tsv", rows=6000, seed=3, ids=30_000, test_rows=1500)
    return {"train": str(directory / "data.train.tsv"), "test": str(directory / "data.test.tsv")}


@pytest.fixture
def small_job(criteo: dict[str, str], tmp_path: Path) -> Job:
    """A job that trains in a second or two."""
    return Job.model_validate(small_settings(criteo, tmp_path))


def small_settings(criteo: dict[str, str], directory: Path) -> dict[str, object]:
    return {
        "name": "small",
        "seed": 5,
        "threads": 1,
        "output": str(directory / "runs"),
        "data": {"train": [criteo["train"]], "test": [criteo["test"]], "shuffle_rows": 1000},
        "model": {"name": "deepfm", "embedding_dim": 4, "hidden": [16], "dropout": 0.1},
        "train": {"batch_size": 100, "log_every": 7, "epochs": 1},
    }


def write_job(path: Path, settings: dict[str, object]) -> Path:
    path.write_text(yaml.safe_dump(settings), encoding="utf-8")
    return path


def start(*arguments: str | Path, **options: object) -> subprocess.Popen[str]:
    """The command line, as a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "clickline", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
        **options,  # type: ignore[call-overload]
    )


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    process = start(*arguments)
    out, err = process.communicate(timeout=120)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)
