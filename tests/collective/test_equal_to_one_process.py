"""Two ranks of batch b learn what one process of batch 2b learns, and the same bits every time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import clickline
from clickline.config import Job
from clickline.train.checkpoints import checkpoint_files
from clickline.train.checkpoints.checkpoint_inspection import difference
from clickline.train.session import evaluate_checkpoint
from support.processes import small_settings, write_job
from support.training.rank_processes import lines_of, run_ranks

pytestmark = pytest.mark.heavy
BATCH = 100


@pytest.fixture(scope="module")
def two_logs(criteo, tmp_path_factory) -> dict[str, str]:
    """Two files of equal length, and the same rows in one, so that batch s of 2b is the union of batches s of b."""
    directory = tmp_path_factory.mktemp("two")
    rows = Path(criteo["train"]).read_text().splitlines(keepends=True)[:4000]
    halves = rows[:2000], rows[2000:]
    mixed: list[str] = []
    for first in range(0, 2000, BATCH):
        mixed += halves[0][first : first + BATCH] + halves[1][first : first + BATCH]
    paths = {name: directory / f"{name}.tsv" for name in ("a", "b", "mixed")}
    for path, lines in zip(paths.values(), (*halves, mixed), strict=True):
        path.write_text("".join(lines))
    return {**{name: str(path) for name, path in paths.items()}, "test": criteo["test"]}


def settings_for(two_logs, tmp_path, **changes) -> dict[str, object]:
    """No shuffling, no dropout: what is random is random per rank."""
    settings = small_settings({"train": two_logs["a"], "test": two_logs["test"]}, tmp_path)
    settings["data"] = {"train": [two_logs["a"], two_logs["b"]], "test": [two_logs["test"]], "shuffle_rows": 0}
    settings["model"] = {"name": "deepfm", "embedding_dim": 4, "hidden": [16], "dropout": 0.0}
    settings["train"] = {"batch_size": BATCH, "log_every": 1, "epochs": 2, "optimizer": {"clip": 1.0}}
    settings["cluster"] = {"piece_bytes": 1 << 30}
    for section, values in changes.items():
        settings[section] = {**settings.get(section, {}), **values} if isinstance(values, dict) else values
    return settings


@pytest.mark.parametrize("staleness", [0, 1])
def test_two_ranks_of_batch_b_are_one_process_of_batch_2b(two_logs, tmp_path, staleness):
    settings = settings_for(two_logs, tmp_path, name="two", train={"staleness": staleness})
    settings["data"]["valid"] = [two_logs["test"]]
    two = run_ranks(2, write_job(tmp_path / "two.yaml", settings))
    settings["name"] = "one"
    settings["data"]["train"] = [two_logs["mixed"]]
    settings["train"]["batch_size"] = 2 * BATCH
    one = clickline.train_job(Job.model_validate(settings))

    here, there = lines_of(tmp_path / "runs" / "two"), lines_of(tmp_path / "runs" / "one")
    assert len(here) == len(there) == 40 + 2 + 1
    for mine, theirs in zip(here, there, strict=True):
        assert mine == pytest.approx(theirs, abs=1e-5), mine["step"]
    assert two[0].result["steps"] == one.steps == 40
    assert two[0].result["rows"] == one.rows == 8000
    assert {**two[0].result, "seconds": 0} == {**two[1].result, "seconds": 0}
    assert two[0].result["test"]["auc"] == pytest.approx(one.test["auc"], abs=1e-5)


@pytest.fixture
def histories(tmp_path) -> dict[str, list[str]]:
    """Two logs of movies seen, with weights and times, and the same rows in one; the second is shorter."""
    rng = np.random.default_rng(2)
    header = "click,user,movie,seen,weight,when"
    rows = []
    for row in range(1500):
        seen = rng.choice(30, size=rng.integers(1, 6), replace=False)
        movie = rng.choice(seen) if rng.random() < 0.5 else rng.integers(0, 30)
        click = int(movie in seen) if rng.random() < 0.8 else 0
        rows.append(f"{click},u{row % 40},{movie},{'|'.join(map(str, seen))},{1 + row % 3},{1000 + row}")
    halves, mixed = (rows[:1000], rows[1000:]), []
    for first in range(0, 1000, BATCH):
        mixed += halves[0][first : first + BATCH] + halves[1][first : first + BATCH]
    paths = {"a": halves[0], "b": halves[1], "mixed": mixed, "test": rows[::3]}
    for name, lines in paths.items():
        (tmp_path / f"{name}.csv").write_text("\n".join([header, *lines]) + "\n")
    return {
        "two": [str(tmp_path / "a.csv"), str(tmp_path / "b.csv")],
        "one": [str(tmp_path / "mixed.csv")],
        "test": [str(tmp_path / "test.csv")],
    }


def test_weights_times_groups_and_shared_tables_agree_too(histories, tmp_path):
    """The first five steps have rows of both ranks, the others of one: in one process, batches of 2b and of b."""
    settings: dict[str, object] = {
        "name": "two",
        "output": str(tmp_path / "runs"),
        "threads": 1,
        "data": {"format": "csv", "train": histories["two"], "valid": histories["test"], "shuffle_rows": 0},
        "features": {
            "labels": ["click"],
            "slots": ["user", "movie", {"name": "seen", "separator": "|", "pooling": "sequence", "keys_of": "movie"}],
            "weight": "weight",
            "time": "when",
            "group": "user",
        },
        "model": {"name": "din", "embedding_dim": 8, "hidden": [16], "params": {"sequence_length": 6}},
        "train": {"batch_size": BATCH, "epochs": 1, "log_every": 1, "max_steps": 5},
        "tables": {"embedding": {"init_scale": 0.1}, "eviction": {"unseen_for": 400}, "evict_every": 3},
        "cluster": {"piece_bytes": 1 << 30},
    }
    assert run_ranks(2, write_job(tmp_path / "two.yaml", settings))[0].result["steps"] == 5
    whole = {**settings, "train": {**settings["train"], "max_steps": 0}}
    done = run_ranks(2, write_job(tmp_path / "two.yaml", whole), "--resume")[0].result
    assert done["steps"] == 10
    assert done["rows"] == 1500
    settings |= {"name": "one", "data": {**settings["data"], "train": histories["one"]}}
    settings["train"] |= {"batch_size": 2 * BATCH}
    clickline.train_job(Job.model_validate(settings))
    here, there = lines_of(tmp_path / "runs" / "two", kind="train"), lines_of(tmp_path / "runs" / "one", kind="train")
    for mine, theirs in zip(here[:5], there, strict=True):
        assert mine == pytest.approx(theirs, abs=1e-5), mine["step"]
    assert {"auc", "gauc", "logloss"} <= done["valid"].keys()
    figures = evaluate_checkpoint(checkpoint=Path(done["checkpoint"]), paths=histories["test"])
    assert done["valid"] == pytest.approx(figures, abs=1e-6)


def test_the_same_bits_every_time_and_the_exact_figures(two_logs, tmp_path):
    settings = settings_for(
        two_logs,
        tmp_path,
        data={"shuffle_rows": 1000},
        model={"dropout": 0.1},
        train={"log_every": 7},
        tables={"evict_every": 10, "eviction": {"min_score": 0.15}},
    )
    found = []
    for name in ("first", "again"):
        settings["name"] = name
        run_ranks(2, write_job(tmp_path / f"{name}.yaml", settings))[0].result  # noqa: B018  (it asserts)
        found.append(checkpoint_files.find(tmp_path / "runs" / name / "checkpoints")[-1])
    assert lines_of(tmp_path / "runs" / "first") == lines_of(tmp_path / "runs" / "again")
    assert difference(*found)["same"]
    for name in found[0].manifest["files"]:
        assert (found[0].path / name).read_bytes() == (found[1].path / name).read_bytes(), name
    # One process that loads both parts predicts the same rows, and measures the same.
    figures = evaluate_checkpoint(checkpoint=found[0].path, paths=[two_logs["test"]])
    told = lines_of(tmp_path / "runs" / "first", kind="test")[0]
    for name, value in figures.items():
        assert told[name] == pytest.approx(value, abs=1e-6), name
