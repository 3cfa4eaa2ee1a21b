"""Local copies of runs at URLs go when they were not used for long, unless they have what is nowhere else."""

from __future__ import annotations

import os
import time
from pathlib import Path

from clickline.config import Job
from clickline.config.run_location import run_directory_of
from clickline.files.locks import open_lock_file, try_lock
from clickline.launch.local.training_run import train_job
from clickline.train.run_files.run_lock import FILE
from clickline.train.run_storage.local_copy import LEDGER, LocalCopy
from clickline.train.run_storage.old_copies import KEPT_DAYS
from support.processes import small_settings
from support.training.remote_runs import another_machine


def copy_of(below: Path, name: str, *, complete: bool, days: float) -> Path:
    directory = below / "0123456789abcdef" / name
    directory.mkdir(parents=True)
    (directory / FILE).touch()
    copy = LocalCopy(directory)
    copy.complete = complete
    copy.remember()
    then = time.time() - days * 86_400
    os.utime(directory / LEDGER, (then, then))
    return directory


def test_a_run_that_begins_removes_copies_that_were_uploaded_and_not_used_for_long(
    s3, bucket, criteo, tmp_path, monkeypatch
):
    another_machine(monkeypatch, tmp_path / "machine")
    settings = small_settings(criteo, tmp_path) | {"output": f"s3://{bucket}/runs"}
    settings["train"] = {"batch_size": 100, "max_steps": 2}
    job = Job.model_validate(settings)
    below = run_directory_of(job).parent.parent
    old = copy_of(below, "old", complete=True, days=KEPT_DAYS + 1)
    kept = [
        copy_of(below, "young", complete=True, days=KEPT_DAYS - 1),
        copy_of(below, "not-uploaded", complete=False, days=KEPT_DAYS + 1),
        held := copy_of(below, "held", complete=True, days=KEPT_DAYS + 1),
    ]
    descriptor = open_lock_file(held / FILE)
    try:
        assert try_lock(descriptor)
        result = train_job(job)
    finally:
        os.close(descriptor)
    assert not old.exists()
    assert all(copy.is_dir() for copy in kept)
    assert LocalCopy(result.directory).complete
    assert not [path for path in old.parent.iterdir() if path.name.startswith(".")]
