"""Small clusters of real processes: started, watched through what they leave on disk, and hit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from clickline.config import Job
from clickline.train import checkpoints
from clickline.train.checkpoints import Checkpoint
from processes import ENVIRONMENT, write_job

PATIENCE = 100.0
"""Seconds after which something that has not happened never will."""
SLOTS = 26


def settings_for(data: dict[str, str], directory: Path, name: str, **changes: Any) -> dict[str, Any]:
    """Many pieces, small steps, frequent cuts, quick signs of life."""
    settings: dict[str, Any] = {
        "name": name,
        "seed": 5,
        "threads": 1,
        "strategy": "async",
        "output": str(directory / "runs"),
        "data": {"train": [data["train"]], "test": [data["test"]], "shuffle_rows": 1000, "threads": 1},
        "model": {"name": "deepfm", "embedding_dim": 4, "hidden": [16], "dropout": 0.0},
        "train": {"batch_size": 50, "log_every": 10, "epochs": 1},
        "checkpoint": {"every_steps": 40, "keep": 1000},
        "cluster": {
            "pservers": 2,
            "trainers": 2,
            "threads": 1,
            "piece_bytes": 20_000,
            "heartbeat": 0.2,
            "start_timeout": 60,
        },
    }
    for section, values in changes.items():
        settings[section] = {**settings.get(section, {}), **values} if isinstance(values, dict) else values
    return settings


def until(condition: Callable[[], Any], process: subprocess.Popen[str] | None = None, *, what: str = "") -> Any:
    """What the condition gives when it gives something; fails if it never does, or if the process ends before."""
    end = time.monotonic() + PATIENCE
    while True:
        found = condition()
        if found:
            return found
        if process is not None and process.poll() is not None:
            out, err = process.communicate()
            raise AssertionError(f"ended with {process.returncode} before {what or 'it happened'}:\n{out}\n{err}")
        assert time.monotonic() < end, f"this should have happened by now: {what}"
        time.sleep(0.01)


class Run:
    """`clickline train JOB` as a process, and a view of what it does."""

    def __init__(self, settings: dict[str, Any], *arguments: str, env: dict[str, str] | None = None) -> None:
        self.job = Job.model_validate(settings)
        self.directory = Path(self.job.output) / self.job.name
        self.directory.parent.mkdir(parents=True, exist_ok=True)
        self.file = write_job(self.directory.parent / f"{self.job.name}.yaml", settings)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "clickline", "train", str(self.file), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**ENVIRONMENT, **(env or {})},
        )

    def status(self) -> dict[str, Any]:
        try:
            return json.loads((self.directory / "status.json").read_text())
        except (FileNotFoundError, ValueError):
            return {}

    def reaches(self, condition: Callable[[], Any], what: str = "") -> Any:
        return until(condition, self.process, what=what)

    def steps(self, least: int) -> None:
        """Wait until so many steps were taken."""
        self.reaches(lambda: self.status().get("step", 0) >= least, f"step {least}")

    def cuts(self, least: int) -> list[Checkpoint]:
        """Wait until so many checkpoints are there."""
        return self.reaches(lambda: (c := self.checkpoints()) and len(c) >= least and c, f"{least} checkpoints")

    def checkpoints(self) -> list[Checkpoint]:
        return checkpoints.find(self.directory / "checkpoints")

    def pid(self, name: str) -> int:
        """Of a member, by role and rank."""

        def found() -> int | None:
            members = self.status().get("members", [])
            return next((m["pid"] for m in members if m["name"] == name and m["state"] != "dead"), None)

        return self.reaches(found, f"{name} has joined")

    def kill(self, name: str, number: int = signal.SIGKILL) -> int:
        pid = self.pid(name)
        os.kill(pid, number)
        return pid

    def log(self, name: str) -> str:
        path = self.directory / "logs" / f"{name}.log"
        return path.read_text() if path.exists() else ""

    def environment_of(self, name: str) -> dict[str, str]:
        """As a process of the run has it: what another one needs to join."""
        raw = Path(f"/proc/{self.pid(name)}/environ").read_bytes().decode()
        pairs = dict(line.split("=", 1) for line in raw.split("\0") if "=" in line)
        return {key: value for key, value in pairs.items() if key.startswith("CLICKLINE_") and "LAUNCHER" not in key}

    def ends(self, code: int = 0) -> dict[str, Any]:
        """Wait for the end; returns result.json of a run that ended well."""
        try:
            self.out, self.err = self.process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGTERM)
            self.out, self.err = self.process.communicate(timeout=20)
            raise AssertionError(f"still running; {self.status()}\n{self.out}\n{self.err}") from None
        assert self.process.returncode == code, f"{self.process.returncode}\n{self.out}\n{self.err}"
        file = self.directory / "result.json"
        return json.loads(file.read_text()) if file.exists() else {}

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            self.process.communicate(timeout=30)
