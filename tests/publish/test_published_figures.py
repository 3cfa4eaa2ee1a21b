"""A version states figures of the checkpoint that it was made of: after early stopping, and where there are none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clickline.config import Job
from clickline.data.dataset import Dataset
from clickline.launch.local.training_run import train_job
from clickline.progress import LogOnly
from clickline.publish.parity import Published
from clickline.publish.publisher import Settings, publish
from clickline.train.checkpoints import checkpoint_files
from clickline.train.checkpoints.checkpoint_figures import recorded
from clickline.train.evaluation.metrics import auc
from clickline.train.run_files.run_result import Result
from clickline.train.session import evaluate_checkpoint
from clickline.versions.chain import opened
from clickline.versions.store import Store, open_store
from support.processes import small_settings
from support.versions.trained_run import Training


class Heard(LogOnly):
    """Keeps what a run says."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)


def overfitting(criteo: dict[str, str], tmp_path: Path, **more: Any) -> Job:
    """Keeps rows over epochs and moves them far, so that validation becomes worse after the first epochs."""
    lines = Path(criteo["test"]).read_bytes().splitlines(keepends=True)
    for name, part in (("valid", lines[:700]), ("test", lines[700:])):
        (tmp_path / f"{name}.tsv").write_bytes(b"".join(part))
    settings = small_settings(criteo, tmp_path)
    settings["data"] |= {"valid": [str(tmp_path / "valid.tsv")], "test": [str(tmp_path / "test.tsv")]}  # type: ignore[operator]
    settings["train"] = {"batch_size": 100, "epochs": 20, "early_stopping": {"patience": 2}}
    settings["tables"] = {"embedding": {"restart_epochs": False, "optimizer": {"learning_rate": 0.1}}}
    return Job.model_validate({**settings, **more})


def served_auc(store: Store, version: int, job: Job, paths: list[str]) -> float:
    """Of the version's own network on its own rows, over all rows of some data."""
    with opened(store, version) as chain:
        manifest = chain.manifest
        published = Published(inputs=manifest.inputs, schema=chain.schema, rows=chain.rows(), network=chain.network())
        data = Dataset(data=job.data, schema=chain.schema, paths=paths, batch_size=1000, seed=1, shuffle=False)
        batches = [batch for batch, _ in data.batches(epoch=0)]
        predicted = np.concatenate([published.predict(batch)[:, 0] for batch in batches])
        found = auc(predicted, np.concatenate([batch.labels[:, 0] for batch in batches]))
    assert found is not None
    return found


WAYS = {
    "one process": {},
    "parameter servers": {"strategy": "async", "cluster": {"pservers": 1, "trainers": 1}},
    "ranks": {"strategy": "collective", "cluster": {"trainers": 1}},
}


@pytest.mark.parametrize("way", WAYS)
def test_publishing_a_run_that_stopped_early_serves_the_auc_that_it_states(
    way: str, criteo: dict[str, str], tmp_path: Path
) -> None:
    job, heard = overfitting(criteo, tmp_path, **WAYS[way]), Heard()
    result = train_job(job, watcher=heard)
    steps = [one.step for one in checkpoint_files.find(result.directory / "checkpoints")]
    best = checkpoint_files.read(result.checkpoint)
    assert best.step < steps[-1]  # it did overfit
    if way != "ranks":  # which write to their logs
        assert any(line.startswith("stopped early after 2 epochs without improvement") for line in heard.lines)

    store = open_store(tmp_path / "store")
    manifest = publish(result.directory, store, Settings(kind="base", sample_rows=64))
    assert manifest.training["step"] == best.step
    assert manifest.training["auc_on"] == "test"
    assert manifest.training["measured_on"] == {"test": job.data.test, "valid": job.data.valid}
    assert served_auc(store, 1, job, job.data.test) == pytest.approx(manifest.training["auc"], abs=1e-6)
    stated = manifest.training["figures"]["valid"]["auc"]
    assert served_auc(store, 1, job, job.data.valid) == pytest.approx(stated, abs=1e-6)
    assert result.valid["auc"] == stated
    tested = [json.loads(line) for line in (result.directory / "metrics.jsonl").read_text().splitlines()][-1]
    assert (tested["kind"], tested["step"], tested["auc"]) == ("test", best.step, manifest.training["auc"])


def test_a_checkpoint_without_figures_of_its_own_is_published_without(training: Training, tmp_path: Path) -> None:
    manifest = publish(training.checkpoints[0], open_store(tmp_path / "store"), Settings(sample_rows=16))
    assert (manifest.training["auc"], manifest.training["auc_on"], manifest.training["figures"]) == (None, None, {})


def test_a_checkpoint_within_an_epoch_does_not_carry_the_last_validation(
    criteo: dict[str, str], tmp_path: Path
) -> None:
    job = overfitting(criteo, tmp_path, checkpoint={"every_steps": 40, "keep": 50})
    result = train_job(job.model_copy(update={"train": job.train.model_copy(update={"epochs": 2})}))
    found = {one.step: recorded(one).keys() for one in checkpoint_files.find(result.directory / "checkpoints")}
    assert {step for step, kinds in found.items() if "valid" in kinds} == {45, 90}
    assert not found[80]


def test_evaluating_a_checkpoint_on_the_jobs_test_data_gives_it_figures(criteo: dict[str, str], tmp_path: Path) -> None:
    job = Job.model_validate(small_settings(criteo, tmp_path) | {"checkpoint": {"every_steps": 20, "keep": 9}})
    result: Result = train_job(job)
    early = checkpoint_files.find(result.directory / "checkpoints")[0]
    assert not recorded(early)
    evaluate_checkpoint(checkpoint=early.path, paths=job.data.train)
    assert not recorded(early)
    figures = evaluate_checkpoint(checkpoint=early.path, paths=job.data.test)
    assert recorded(early)["test"].figures == figures
    manifest = publish(early.path, open_store(tmp_path / "store"), Settings(sample_rows=16))
    assert manifest.training["auc"] == figures["auc"]


def test_another_checkpoint_of_the_same_step_does_not_inherit_figures(criteo: dict[str, str], tmp_path: Path) -> None:
    job = Job.model_validate(small_settings(criteo, tmp_path))
    first = train_job(job)
    assert recorded(checkpoint_files.read(first.checkpoint))
    other = job.model_copy(update={"seed": 77, "data": job.data.model_copy(update={"test": []})})
    second = train_job(other, fresh=True)
    assert second.checkpoint == first.checkpoint
    assert not recorded(checkpoint_files.read(second.checkpoint))
