"""Ranks with different numbers of rows, and checkpoints that another number of ranks goes on from."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from clickline.config import Job
from clickline.data.schema import Schema
from clickline.train.checkpoints import checkpoint_files
from clickline.train.checkpoints.checkpoint_inspection import difference
from clickline.train.checkpoints.dense_tensors import load
from clickline.train.learner import Learner
from clickline.train.session import evaluate_checkpoint
from support.processes import small_settings, write_job
from support.training.rank_processes import lines_of, run_ranks

pytestmark = pytest.mark.heavy
ROWS = 4500


def settings_for(criteo, directory: Path, name: str, **changes: object) -> dict[str, object]:
    settings = small_settings(criteo, directory)
    settings["name"] = name
    settings["data"] = {**settings["data"], "valid": [criteo["test"]]}
    settings["train"] = {"batch_size": 100, "log_every": 7, "epochs": 2}
    settings["checkpoint"] = {"every_steps": 10, "keep": 100}
    settings["cluster"] = {"piece_bytes": 100_000}
    for section, values in changes.items():
        settings[section] = {**settings.get(section, {}), **values} if isinstance(values, dict) else values
    return settings


def loaded(checkpoint: checkpoint_files.Checkpoint) -> Learner:
    manifest = checkpoint.manifest
    learner = Learner(job=Job.model_validate(manifest["job"]), schema=Schema.from_dict(manifest["schema"]), threads=1)
    load(checkpoint, tables=learner.sparse.tables)
    return learner


@pytest.mark.parametrize("staleness", [0, 1])
def test_a_rank_without_rows_takes_part_until_all_are_done(criteo, tmp_path, staleness):
    rows = Path(criteo["train"]).read_text().splitlines(keepends=True)
    for name, lines in (("long", rows[:1130]), ("short", rows[1130:1400])):
        (tmp_path / f"{name}.tsv").write_text("".join(lines))
    settings = settings_for(criteo, tmp_path, "uneven", cluster={"piece_bytes": 1 << 30})
    settings["train"] |= {"staleness": staleness, "epochs": 1, "log_every": 4}
    settings["data"]["train"] = [str(tmp_path / "long.tsv"), str(tmp_path / "short.tsv")]
    settings["data"]["test"] = [str(tmp_path / "short.tsv")]
    done = run_ranks(2, write_job(tmp_path / "job.yaml", settings))
    assert done[0].result["rows"] == 1400
    assert done[0].result["steps"] == 12
    assert done[0].result["test"]["rows"] == 270
    lines = lines_of(tmp_path / "runs" / "uneven", kind="train")
    assert [line["rows"] for line in lines] == [400 + 270, 400, 330]
    learner = loaded(checkpoint_files.find(tmp_path / "runs" / "uneven" / "checkpoints")[-1])
    table = learner.sparse.tables["embedding"]
    assert table.step == 12
    assert table.counts(table.keys())[:, 0].sum() == 1400 * len(learner.schema.slots), "every key of every row once"


def test_killed_and_resumed_with_checkpoints_that_travel_equals_never_stopped(criteo, tmp_path):
    whole = settings_for(criteo, tmp_path, "whole")
    run_ranks(2, write_job(tmp_path / "whole.yaml", whole))[0].result  # noqa: B018  (it asserts)
    parted = settings_for(criteo, tmp_path, "parted", checkpoint={"transfer": "network"})
    job = write_job(tmp_path / "parted.yaml", parted)
    died = run_ranks(2, job, "--die", "1", "17", "kill")
    assert [one.code for one in died] == [7, -9]
    done = run_ranks(2, job, "--resume")
    assert done[0].result["rows"] == 2 * ROWS
    assert lines_of(tmp_path / "runs" / "parted") == lines_of(tmp_path / "runs" / "whole")
    last, other = (checkpoint_files.find(tmp_path / "runs" / name / "checkpoints")[-1] for name in ("parted", "whole"))
    assert last.step == other.step
    assert difference(last, other)["same"]


def test_two_ranks_stop_and_one_or_three_go_on(criteo, tmp_path):
    settings = settings_for(criteo, tmp_path, "two", train={"max_steps": 10})
    assert run_ranks(2, write_job(tmp_path / "job.yaml", settings))[0].result["rows"] == 10 * 200
    two = tmp_path / "runs" / "two"
    saved = checkpoint_files.find(two / "checkpoints")[-1]
    parts = [name for name in saved.manifest["files"] if name.startswith("table-")]
    assert all("-of-0002" in name for name in parts)
    for ranks in (1, 3):
        name = f"now{ranks}"
        shutil.copytree(two, tmp_path / "runs" / name)
        # One step more, and the tables hold what they held and what the step brought.
        options = ("--set", f"name={name}", "--resume")
        one_more = run_ranks(ranks, tmp_path / "job.yaml", *options, "--set", "train.max_steps=11")
        assert one_more[0].result["rows"] == 2000 + ranks * 100
        before, after = loaded(saved), loaded(checkpoint_files.find(tmp_path / "runs" / name / "checkpoints")[-1])
        for table, rows in before.sparse.tables.items():
            now = after.sparse.tables[table]
            keys = rows.keys()
            seen = now.last_seen(keys) == 11
            assert np.isin(keys, now.keys()).all()
            assert 0 < seen.sum() < len(keys)
            np.testing.assert_array_equal(now.rows(keys)[~seen], rows.rows(keys)[~seen])
            np.testing.assert_array_equal(now.states(keys)[~seen], rows.states(keys)[~seen])
            assert now.step == 11
        done = run_ranks(ranks, tmp_path / "job.yaml", *options, "--set", "train.max_steps=0")
        assert done[0].result["rows"] == 2 * ROWS, "the epoch's other rows, each once, and another epoch"
        assert len(done) == ranks
        assert done[0].result["test"]["auc"] > 0.6


def test_the_best_checkpoint_is_tested_and_warms_the_next_run(criteo, tmp_path):
    """Rows that learn far too fast know the training data by heart after an epoch, and the others get worse."""
    settings = settings_for(criteo, tmp_path, "hasty", checkpoint={"every_steps": 0})
    settings["train"] |= {"epochs": 9, "early_stopping": {"patience": 2}}
    settings["tables"] = {"embedding": {"restart_epochs": False, "optimizer": {"learning_rate": 0.5}}}
    job = write_job(tmp_path / "job.yaml", settings)
    done = run_ranks(2, job)
    result = done[0].result
    assert result["steps"] < 9 * 23, "stopped early"
    best = checkpoint_files.read(Path(result["checkpoint"]))
    assert best.step < result["steps"]
    assert done[0].err.count("testing the best checkpoint") == 1
    assert done[1].err == "", "one rank speaks"
    figures = evaluate_checkpoint(checkpoint=best.path, paths=[criteo["test"]])
    assert result["test"] == pytest.approx(figures, abs=1e-6)
    warm = run_ranks(3, job, "--set", "name=warm", "--set", "train.max_steps=1", "--warm-start", best.path)
    assert warm[0].result["test"]["auc"] == pytest.approx(figures["auc"], abs=0.02)
