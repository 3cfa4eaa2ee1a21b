"""A checkpoint is complete or invisible, and damage is named before anything is used."""

from __future__ import annotations

import json

import pytest

from clickline import train_job
from clickline.config import Job
from clickline.errors import CheckpointError
from clickline.train.checkpoints import checkpoint_files


@pytest.fixture
def trained(small_job):
    return train_job(small_job)


def test_every_damaged_byte_is_found(trained):
    checkpoint = checkpoint_files.read(trained.checkpoint)
    checkpoint_files.verify(checkpoint)
    for name in checkpoint.manifest["files"]:
        path = checkpoint.path / name
        good = path.read_bytes()
        for place in (0, len(good) // 2, len(good) - 1):
            path.write_bytes(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])
            with pytest.raises(CheckpointError, match=f"{name}.*damaged"):
                checkpoint_files.verify(checkpoint)
        path.write_bytes(good[:-1])
        with pytest.raises(CheckpointError, match="damaged"):
            checkpoint_files.verify(checkpoint)
        path.unlink()
        with pytest.raises(CheckpointError, match="missing"):
            checkpoint_files.verify(checkpoint)
        path.write_bytes(good)


def test_a_manifest_cannot_name_files_elsewhere(trained):
    path = trained.checkpoint / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["files"]["../../secret"] = {"bytes": 1, "sha256": ""}
    path.write_text(json.dumps(manifest))
    with pytest.raises(CheckpointError, match="leaves the checkpoint's directory"):
        checkpoint_files.read(trained.checkpoint)


def test_resuming_with_another_model_is_refused_by_name(small_job, trained):
    other = Job.model_validate({**small_job.model_dump(), "model": {"name": "dnn"}, "seed": 99})
    with pytest.raises(CheckpointError, match=r"model\.name.*seed"):
        train_job(other, resume=True)


def test_training_again_in_the_same_place_loses_nothing(small_job, trained):
    with pytest.raises(CheckpointError, match="--resume continues"):
        train_job(small_job)
    assert checkpoint_files.find(trained.directory / "checkpoints")


def test_only_the_newest_and_the_best_are_kept(small_job, criteo):
    settings = small_job.model_dump()
    settings["checkpoint"] = {"every_steps": 10, "every_epochs": 0, "keep": 2}
    settings["data"]["valid"] = [criteo["test"]]
    settings["train"]["epochs"] = 3
    result = train_job(Job.model_validate(settings))
    steps = [found.step for found in checkpoint_files.find(result.directory / "checkpoints")]
    newest = result.steps
    assert newest in steps
    assert int(result.checkpoint.name.removeprefix("step-")) in steps
    assert len(steps) <= 3


def test_a_damaged_manifest_is_named(trained):
    path = trained.checkpoint / "manifest.json"
    good = path.read_text()
    path.write_text(good.replace('"seed": 5', '"seed": 7'))
    with pytest.raises(CheckpointError, match=r"manifest\.json: damaged"):
        checkpoint_files.read(trained.checkpoint)


def test_dense_state_is_compared_with_its_digest_by_whoever_loads_it_alone(trained):
    """As a parameter server does, which reads its own rows of the tables and leaves the others' files alone."""
    path = trained.checkpoint / checkpoint_files.DENSE
    good = path.read_bytes()
    path.write_bytes(good[:-9] + bytes([good[-9] ^ 64]) + good[-8:])
    with pytest.raises(CheckpointError, match=r"dense\.safetensors: damaged"):
        checkpoint_files.dense_arrays(checkpoint_files.read(trained.checkpoint))


def test_going_on_from_an_earlier_one_does_not_cost_the_newest(small_job):
    """Those of later steps, which the run has not reached again, do not count against `checkpoint.keep`."""
    settings = small_job.model_dump()
    settings["checkpoint"] = {"every_steps": 5, "every_epochs": 0, "keep": 2}
    settings["train"] |= {"max_steps": 20}
    run = train_job(Job.model_validate(settings))
    saves = run.directory / "checkpoints"
    (saves / "step-0000000015").rename(saves / "step-0000000005")  # its name alone is what matters here
    checkpoint_files.prune(saves, newest=5, keep=1, also=None)
    assert sorted(path.name for path in saves.glob("step-*")) == ["step-0000000005", "step-0000000020"]


def test_warm_start_takes_weights_and_goes_on_counting(small_job, trained):
    settings = {**small_job.model_dump(), "name": "warm"}
    result = train_job(Job.model_validate(settings), warm_start=trained.directory)
    assert result.steps == 2 * trained.steps
    first = json.loads((result.directory / "metrics.jsonl").read_text().splitlines()[0])
    cold = json.loads((trained.directory / "metrics.jsonl").read_text().splitlines()[0])
    assert first["logloss"] < cold["logloss"]
