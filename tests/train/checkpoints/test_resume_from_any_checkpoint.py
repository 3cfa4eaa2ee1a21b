"""A run goes on from any checkpoint that it saved, by step or by epoch, and ends as if it had never stopped there."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from clickline.config import Job
from clickline.train.checkpoints import checkpoint_files
from clickline.train.checkpoints.checkpoint_inspection import difference
from clickline.train.session import train_job
from support.processes import small_settings


@pytest.mark.heavy
def test_every_saved_checkpoint_leads_to_the_same_end(criteo: dict[str, str], tmp_path: Path) -> None:
    settings = small_settings(criteo, tmp_path)
    settings["checkpoint"] = {"every_steps": 20, "every_epochs": 1, "keep": 10}
    settings["train"] = {"batch_size": 100, "log_every": 7, "epochs": 2, "max_steps": 70}  # an epoch has 45
    job = Job.model_validate(settings)
    whole = train_job(job)
    saved = sorted(path.name for path in (whole.directory / "checkpoints").glob("step-*"))
    assert [int(name.removeprefix("step-")) for name in saved] == [20, 40, 45, 60, 70]
    for name in saved[:-1]:
        copy = Path(shutil.copytree(whole.directory, tmp_path / name / "small"))
        again = job.model_copy(update={"output": str(copy.parent)})
        resumed = train_job(again, resume=copy / "checkpoints" / name)
        assert resumed.test == whole.test, name
        ours, theirs = checkpoint_files.read(resumed.checkpoint), checkpoint_files.read(whole.checkpoint)
        assert difference(ours, theirs)["same"], name
