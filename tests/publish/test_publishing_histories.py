"""Publishing what is not Criteo: slots of several values, sequences, event times, several labels."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from clickline.config import Job
from clickline.errors import VersionError
from clickline.publish.parity import check_again
from clickline.publish.publisher import Settings, publish
from clickline.train.session import train_job
from clickline.versions import donefile
from clickline.versions.chain import opened
from clickline.versions.store import open_store

START = 1_700_000_000
ROWS = 400


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Users, items, what was seen before (none to six of them), when, and what became of it."""
    draw = random.Random(4)
    path = tmp_path_factory.mktemp("histories") / "log.csv"
    with path.open("w", encoding="utf-8") as file:
        file.write("click,buy,user,item,tags,seen,price,ts\n")
        for row in range(ROWS):
            tags = "|".join(str(draw.randrange(9)) for _ in range(draw.randrange(1, 4)))
            seen = "|".join(f"i{draw.randrange(30)}" for _ in range(draw.randrange(7)))
            click = draw.randrange(2)
            file.write(
                f"{click},{click * draw.randrange(2)},u{draw.randrange(40)},i{draw.randrange(30)},{tags},{seen},"
                f"{draw.random():.3f},{START + row}\n"
            )
    return path


def job(log: Path, directory: Path, *, model: str, labels: list[str], first_slot: str = "user") -> Job:
    slots: list[dict[str, object]] = [{"name": first_slot}, {"name": "item"}]
    slots.append({"name": "tags", "pooling": "mean", "separator": "|"})
    if model == "din":
        slots.append({"name": "seen", "pooling": "sequence", "keys_of": "item", "separator": "|"})
    return Job.model_validate(
        {
            "name": model,
            "threads": 1,
            "output": str(directory),
            "data": {"format": "csv", "train": str(log)},
            "features": {"labels": labels, "slots": slots, "dense": [{"name": "price"}], "time": "ts"},
            "model": {"name": model, "embedding_dim": 4, "hidden": [8]},
            "train": {"batch_size": 50, "max_steps": 6},
        }
    )


@pytest.mark.heavy
@pytest.mark.parametrize(("model", "labels"), [("din", ["click"]), ("mmoe", ["click", "buy"])])
def test_histories_and_several_labels_are_published(model: str, labels: list[str], log: Path, tmp_path: Path) -> None:
    result = train_job(job(log, tmp_path, model=model, labels=labels))
    store = open_store(tmp_path / "store")
    manifest = publish(result.directory, store, Settings(sample_rows=100))
    assert START < (manifest.watermark or 0) < START + ROWS
    assert manifest.outputs["probability"]["labels"] == labels
    assert manifest.parity["max_difference"] <= 1e-5
    with opened(store, 1) as chain:
        sample = chain.sample()
        assert sample.batch.offsets is not None
        assert sample.probability.shape == (100, len(labels))
    assert check_again(store, 1) <= 1e-5
    if model == "din":
        history = next(facts for facts in manifest.inputs.values() if "sequence_length" in facts)
        assert (history["slots"], history["table"]) == (["seen"], "embedding")


@pytest.mark.heavy
def test_a_delta_on_a_parent_with_other_features_is_refused(
    log: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The tables have the same shape, and only the schema tells that their keys are hashed from other slots."""
    store = open_store(tmp_path / "store")
    one = train_job(job(log, tmp_path / "one", model="dnn", labels=["click"]))
    other = train_job(job(log, tmp_path / "other", model="dnn", labels=["click"], first_slot="buy"))
    publish(one.directory, store, Settings(kind="base", sample_rows=16))
    with pytest.raises(VersionError, match=r"version 1 has other features .*; publish a base"):
        publish(other.directory, store, Settings(kind="delta", sample_rows=16))
    assert donefile.read(store).last == 1
    assert publish(one.directory, store, Settings(kind="auto", sample_rows=16)).kind == "delta"
    with caplog.at_level("INFO"):
        manifest = publish(other.directory, store, Settings(kind="auto", sample_rows=16))
    assert (manifest.kind, manifest.parent) == ("base", None)
    assert "a base, since: version 2 has other features" in caplog.text
