"""Runs whose output is a URL: small jobs, what is in a bucket, and machines that have seen nothing yet."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from clickline.config import Job
from clickline.train.checkpoints import checkpoint_files
from clickline.train.checkpoints.checkpoint_files import Checkpoint
from support.doubles.s3_server import ObjectServer
from support.processes import small_settings


def settings_at(url: str, criteo: dict[str, str], /, *, steps: int = 30, **changes: Any) -> dict[str, Any]:
    """A job of a second that saves every ten steps."""
    settings: dict[str, Any] = small_settings(criteo, Path())
    settings["output"] = url
    settings["train"] = {"batch_size": 100, "log_every": 7, "epochs": 1, "max_steps": steps}
    settings["checkpoint"] = {"every_steps": 10, "keep": 3}
    for section, values in changes.items():
        settings[section] = {**settings.get(section, {}), **values} if isinstance(values, dict) else values
    return settings


def job_at(url: str, criteo: dict[str, str], /, *, steps: int = 30, **changes: Any) -> Job:
    return Job.model_validate(settings_at(url, criteo, steps=steps, **changes))


def another_machine(monkeypatch: pytest.MonkeyPatch, cache: Path) -> Path:
    """From now on the cache is this directory, which is empty; what was in the one before cannot be seen."""
    shutil.rmtree(os.environ.get("CLICKLINE_CACHE", cache), ignore_errors=True)
    cache.mkdir(mode=0o700)
    monkeypatch.setenv("CLICKLINE_CACHE", str(cache))
    return cache


def names(s3: ObjectServer, bucket: str) -> list[str]:
    """The names of all objects, by AWS's own client."""
    with s3.client() as client:
        return [each["Key"] for each in client.list_objects_v2(Bucket=bucket).get("Contents", [])]


def objects(s3: ObjectServer, bucket: str) -> dict[str, bytes]:
    """Everything in a bucket that nobody writes to."""
    found = names(s3, bucket)
    with s3.client() as client:
        return {name: client.get_object(Bucket=bucket, Key=name)["Body"].read() for name in found}


def complete_steps(s3: ObjectServer, bucket: str, run: str = "runs/small") -> list[int]:
    """Steps of the checkpoints that have a manifest, every file of which is there."""
    found, steps = objects(s3, bucket), []
    for name, content in found.items():
        if name.startswith(f"{run}/checkpoints/step-") and name.endswith("/manifest.json"):
            manifest = json.loads(content)
            folder = name.removesuffix("/manifest.json")
            assert {file: len(found[f"{folder}/{file}"]) for file in manifest["files"]} == {
                file: listed["bytes"] for file, listed in manifest["files"].items()
            }
            steps.append(manifest["step"])
    return sorted(steps)


def folders(s3: ObjectServer, bucket: str, run: str = "runs/small") -> set[str]:
    """Everything that looks like a checkpoint, complete or not."""
    prefix = f"{run}/checkpoints/step-"
    return {name.removeprefix(f"{run}/checkpoints/").split("/")[0] for name in names(s3, bucket) if prefix in name}


def has_uploaded(directory: Path) -> bool:
    """Whether a run has uploaded a checkpoint, by its own ledger: to ask the server costs more than to train."""
    ledger = directory / ".uploaded.json"
    return ledger.is_file() and "step-" in ledger.read_text()


def newest_in(directory: Path) -> Checkpoint:
    return checkpoint_files.find(directory / "checkpoints")[-1]


def same_rows(one: Checkpoint, other: Checkpoint) -> bool:
    """Whether all tables are the same, bit for bit."""
    files = [name for name in one.manifest["files"] if name.startswith("table-")]
    assert files
    return all((one.path / name).read_bytes() == (other.path / name).read_bytes() for name in files)
