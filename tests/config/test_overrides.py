"""--set KEY=VALUE: what it changes, and how it fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clickline.config.loading.reader import read_job
from clickline.errors import JobError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "job.yaml"
    path.write_text("train: {epochs: 2}\ndata: {train: a}\nfeatures: {slots: [C1, C2]}\n", encoding="utf-8")
    return path


def value_at(job: Any, key: str) -> Any:
    for part in key.split("."):
        job = getattr(job, part)
    return job


@pytest.mark.parametrize(
    ("argument", "key", "expected"),
    [
        ("train.epochs=3", "train.epochs", 3),
        (" train.epochs = 3 ", "train.epochs", 3),
        ("train.batch_size=8", "train.batch_size", 8),
        ("train.optimizer={name: sgd}", "train.optimizer.name", "sgd"),
        ("tables.linear.optimizer.l1=1e-3", "tables.linear.optimizer.l1", 1e-3),
        ("data.train=[x, y]", "data.train", ["x", "y"]),
        ("data.train=x=y", "data.train", ["x=y"]),
        ("data.train[0]=x", "data.train", ["x"]),
        ("data.train[1]=b", "data.train", ["a", "b"]),
        ("data.valid[0]=v", "data.valid", ["v"]),
        ("model.hidden[1]=8", "model.hidden", [256, 8]),
        ("model.params.cross_layers=3", "model.params", {"cross_layers": 3}),
        ("features.weight=null", "features.weight", None),
        ("model.hidden=[]", "model.hidden", []),
    ],
)
def test_a_value_is_changed(file: Path, argument: str, key: str, expected: Any) -> None:
    loaded = read_job(file, overrides=[argument])
    assert value_at(loaded.job, key) == expected
    assert "override" in loaded.origins.values()


def test_an_empty_value_is_the_empty_text(file: Path) -> None:
    slots = read_job(
        file, overrides=["features.slots[1].separator=;", "features.slots[1].separator="]
    ).job.features.slots
    assert [(slot.name, slot.separator) for slot in slots] == [("C1", ""), ("C2", "")]


def test_the_last_of_several_wins(file: Path) -> None:
    assert read_job(file, overrides=["train.epochs=3", "train.epochs=4"]).job.train.epochs == 4


def test_replacing_a_section_forgets_the_lines_of_the_old_one(file: Path) -> None:
    loaded = read_job(file, overrides=["train={batch_size: 8}"])
    assert loaded.job.train.epochs == 5
    assert loaded.origins["train.epochs"] == "default"
    assert loaded.origins["train.batch_size"] == "override"


EXPECTED = "expected KEY=VALUE, such as train.epochs=3 or data.train[0]=day_0.gz"


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ("train.epoks=3", "train.epoks, --set: unknown key; did you mean epochs?"),
        ("epochs=3", "epochs, --set: unknown key; did you mean train.epochs?"),
        ("train.epochs=0", "train.epochs, --set: 0 is too small; must be at least 1"),
        ("train.epochs=many", 'train.epochs, --set: "many" is not an integer'),
        ("train.epochs", f"train.epochs, --set: {EXPECTED}"),
        ("=3", f"--set: {EXPECTED}"),
        ("a..b=3", f"a..b, --set: {EXPECTED}"),
        ("data.train[x]=3", f"data.train[x], --set: {EXPECTED}"),
        ("data.train[7]=b", "data.train[7], --set: data.train has 1 elements; [1] would add one"),
        ("train[0]=b", "train[0], --set: train is not a list"),
        ("train.epochs.x=1", "train.epochs.x, --set: train.epochs holds no keys"),
        ("seed.x=1", "seed, --set: a mapping is not an integer"),
        (
            "features.slots[0].pooling=avg",
            'features.slots[0].pooling, --set: "avg" is not one of sum, mean, max, sequence',
        ),
        ("model.hidden=[1", "model.hidden, --set: not valid YAML: expected ',' or ']', but got '<stream end>'"),
        ("train={epochs: 1, epochs: 2}", "train.epochs, --set: given twice; the first is on line 1"),
    ],
)
def test_a_wrong_override_is_named(file: Path, argument: str, expected: str) -> None:
    with pytest.raises(JobError) as caught:
        read_job(file, overrides=[argument])
    assert [str(problem) for problem in caught.value.errors] == [expected]
