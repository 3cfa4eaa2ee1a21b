"""The command line as a real process, and small jobs for it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import yaml

# Records of jobs, which would come among the user's own.
os.environ.setdefault("CLICKLINE_STATE", str(Path(tempfile.gettempdir()) / "clickline-test-jobs"))
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}


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


def start(*arguments: str | Path, env: Mapping[str, str] = ENVIRONMENT, **options: object) -> subprocess.Popen[str]:
    """The command line, as a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "clickline", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=env,
        **options,  # type: ignore[call-overload]
    )


def run(*arguments: str | Path, env: Mapping[str, str] = ENVIRONMENT) -> subprocess.CompletedProcess[str]:
    process = start(*arguments, env=env)
    out, err = process.communicate(timeout=300)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def has_pytorch(pid: int) -> bool:
    """Whether a process has loaded PyTorch's library."""
    return "libtorch_cpu" in Path(f"/proc/{pid}/maps").read_text()
