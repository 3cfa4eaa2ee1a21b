"""Another day's data on yesterday's weights: what the data does not touch stays, in every way to train."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from clickline.config import Job
from clickline.data.dataset import Dataset
from clickline.data.schema import Schema
from clickline.errors import CheckpointError
from clickline.launch.local.training_run import train_job
from clickline.publish.checkpoint_source import open_checkpoint_source
from clickline.publish.publisher import Settings, publish
from clickline.train.checkpoints import checkpoint_files
from clickline.train.run_files.run_result import Result
from clickline.train.session import evaluate_checkpoint
from clickline.versions.store import open_store
from support.made_once import made_once
from support.processes import small_settings

CLUSTER = {"pservers": 2, "trainers": 2, "agree": {"geo_steps": 2}}
WAYS: dict[str, dict[str, Any]] = {
    "single": {},
    "async": {"cluster": CLUSTER},
    "half_async": {"cluster": CLUSTER},
    "sync": {"cluster": CLUSTER},
    "geo": {"cluster": CLUSTER},
    "collective": {"cluster": {"trainers": 2}},
}


@pytest.fixture(scope="session")
def days(criteo: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A first day's log and its run, and a second day that shows few of its keys and brings some of its own."""

    def prepare(directory: Path) -> None:
        lines = Path(criteo["train"]).read_bytes().splitlines(keepends=True)
        (directory / "day1.tsv").write_bytes(b"".join(lines[:4000]))
        (directory / "day2.tsv").write_bytes(b"".join(lines[4000:4400]))
        train_job(day(directory, directory, 1))

    return made_once(tmp_path_factory, "days", prepare)


def day(days: Path, output: Path, number: int, *, way: str = "single", **more: Any) -> Job:
    settings = small_settings({"train": str(days / f"day{number}.tsv"), "test": str(days / "day1.tsv")}, output)
    settings |= {"name": f"day{number}", "strategy": way, **WAYS[way], **more}
    settings["features"] = {"integers": "dense"} | settings.get("features", {})  # type: ignore[operator]
    settings["train"] = {"batch_size": 50, "epochs": 1 if number == 1 else 3}
    return Job.model_validate(settings)


def yesterday(days: Path) -> checkpoint_files.Checkpoint:
    return checkpoint_files.find(days / "runs" / "day1" / "checkpoints")[-1]


def keys_of(job: Job, checkpoint: checkpoint_files.Checkpoint) -> NDArray[np.uint64]:
    schema = Schema.from_dict(checkpoint.manifest["schema"])
    data = Dataset(data=job.data, schema=schema, paths=job.data.train, batch_size=1000, seed=1, shuffle=False)
    return np.unique(np.concatenate([batch.keys for batch, _ in data.batches(epoch=0)]))


@pytest.mark.parametrize("way", WAYS)
def test_rows_that_another_days_data_does_not_touch_stay_and_the_delta_has_the_others(
    way: str, days: Path, tmp_path: Path
) -> None:
    given, job = yesterday(days), day(days, tmp_path, 2, way=way)
    result: Result = train_job(job, warm_start=given.path)
    before, after = open_checkpoint_source(given.path, threads=1), open_checkpoint_source(result.checkpoint, threads=1)
    touched = keys_of(job, given)
    for name, table in after.learner.sparse.tables.items():
        old = before.learner.sparse.tables[name].keys()
        untouched = np.setdiff1d(old, touched)
        assert len(untouched) > 100
        assert table.rows(untouched).tobytes() == before.learner.sparse.tables[name].rows(untouched).tobytes()
        assert table.states(untouched).tobytes() == before.learner.sparse.tables[name].states(untouched).tobytes()
        shown = np.intersect1d(old, touched)
        moved = (table.rows(shown) != before.learner.sparse.tables[name].rows(shown)).any(axis=1)
        assert moved.mean() > 0.9

    first_day = evaluate_checkpoint(checkpoint=given.path, paths=job.data.test)["auc"]
    assert result.test["auc"] > first_day - 0.03
    assert result.checkpoint.name > given.path.name  # steps go on counting
    assert after.schema == before.schema  # dense features are normalised as they were

    store = open_store(tmp_path / "store")
    publish(given.path, store, Settings(kind="base", sample_rows=64))
    delta = publish(result.directory, store, Settings(sample_rows=64))
    assert delta.kind == "delta"
    assert all(table.rows <= len(touched) for table in delta.tables.values())
    assert delta.training["step"] > given.step


def test_a_restarted_row_has_learned_from_its_given_value_once(days: Path, tmp_path: Path) -> None:
    """With a network that stands still, three epochs leave the rows that one epoch leaves."""
    still = {"model": {"name": "fm", "embedding_dim": 4}, "tables": {"linear": {"restart_epochs": True}}}
    first = train_job(day(days, tmp_path, 1, **still))
    epochs = {}
    for count in (1, 3):
        job = day(days, tmp_path, 2, **still)
        job = job.model_copy(
            update={
                "name": f"epochs{count}",
                "train": job.train.model_copy(
                    update={
                        "epochs": count,
                        "average": 0.0,
                        "optimizer": job.train.optimizer.model_copy(update={"learning_rate": 1e-30}),
                    }
                ),
                "data": job.data.model_copy(update={"shuffle_rows": 1}),
            }
        )
        epochs[count] = open_checkpoint_source(
            train_job(job, warm_start=first.checkpoint).checkpoint, threads=1
        ).learner.sparse
    for name, table in epochs[1].tables.items():
        keys = table.keys()
        np.testing.assert_allclose(epochs[3].tables[name].rows(keys), table.rows(keys), atol=1e-5)


def test_a_run_goes_on_after_the_weights_it_began_with_were_pruned(days: Path, tmp_path: Path) -> None:
    job = day(days, tmp_path, 1)
    first = train_job(job)
    whole = train_job(day(days, tmp_path / "whole", 2), warm_start=first.checkpoint)

    short = day(days, tmp_path, 2)
    train_job(
        short.model_copy(update={"train": short.train.model_copy(update={"epochs": 1})}), warm_start=first.checkpoint
    )
    train_job(job, fresh=True)  # takes away what day 2 began with
    resumed = train_job(short, resume=True)
    assert resumed.test == whole.test


def test_without_the_given_weights_a_run_says_what_is_missing(days: Path, tmp_path: Path) -> None:
    job = day(days, tmp_path, 2)
    once = job.model_copy(update={"train": job.train.model_copy(update={"epochs": 1})})
    result = train_job(once, warm_start=yesterday(days).path)
    for file in (result.directory / "start").iterdir():
        file.unlink()
    with pytest.raises(CheckpointError, match=r"began with those weights.*restart_epochs=false"):
        train_job(job, resume=True)


def test_max_steps_counts_the_steps_of_this_run(days: Path, tmp_path: Path) -> None:
    given, job = yesterday(days), day(days, tmp_path, 2)
    job = job.model_copy(update={"train": job.train.model_copy(update={"max_steps": 5})})
    assert train_job(job, warm_start=given.path).steps == given.step + 5
