"""Nothing becomes visible that does not predict as the trainer does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from clickline.errors import VersionError
from clickline.publish import checkpoint_source, parity, publisher
from clickline.publish.checkpoint_source import open_checkpoint_source
from clickline.publish.onnx_export import export
from clickline.publish.parity import Parity, judge
from clickline.publish.publisher import Settings, publish
from clickline.train.learner import Learner
from clickline.versions import donefile
from clickline.versions.chain import opened
from clickline.versions.golden_sample import read_sample
from clickline.versions.maintenance import verify
from clickline.versions.store import Store, open_store
from support.versions.trained_run import Training


def assert_nothing_published(store: Store, *, last: int) -> None:
    assert donefile.read(store).last == last
    assert not [name for name in store.names() if name.startswith(".writing") or name == f"v{last + 1:010d}"]


@pytest.mark.heavy
def test_a_network_that_predicts_otherwise_is_refused(
    filled: Store, training: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(learner: Learner) -> bytes:
        with torch.no_grad(), learner.average.in_place():
            for parameter in learner.model.parameters():
                parameter.add_(0.01)
            content = export(learner)
            for parameter in learner.model.parameters():
                parameter.sub_(0.01)
        return content

    monkeypatch.setattr(publisher, "export", wrong)
    with pytest.raises(VersionError, match=r"not published: .* differ from the trainer's by up to .* 1e-05 is allowed"):
        publish(training.run, filled, Settings(sample_rows=64))
    assert_nothing_published(filled, last=3)


@pytest.mark.heavy
@pytest.mark.parametrize("dtype", ["fp16", "u8"])
def test_shorter_rows_are_measured_by_auc(dtype: str, training: Training, tmp_path: Path) -> None:
    store = open_store(tmp_path / "store")
    manifest = publish(training.run, store, Settings(dtype=dtype, max_auc_drop=0.01))  # type: ignore[arg-type]
    assert manifest.parity["auc_rows"] == 1500
    assert 0 < abs(manifest.parity["auc"] - manifest.parity["published_auc"]) < 0.01 or dtype == "fp16"
    assert manifest.parity["max_difference"] > 0
    verify(store, 1)
    assert parity.check_again(store, 1) == pytest.approx(manifest.parity["max_difference"], abs=1e-6)
    if dtype == "u8":  # a delta of rows that have not changed has none
        assert publish(training.run, store, Settings(dtype="u8", max_auc_drop=0.01)).tables["linear"].rows == 0
    with pytest.raises(VersionError, match=rf"with {dtype} rows the AUC falls from .* \(--max-auc-drop\)"):
        publish(training.run, store, Settings(kind="base", dtype=dtype, max_auc_drop=-1.0))  # type: ignore[arg-type]


def judged(difference: float, *, auc: float, published: float, dtype: str = "fp32") -> None:
    judge(Parity(10, difference, auc, published, 10), dtype=dtype, max_auc_drop=0.001)


def test_what_is_allowed() -> None:
    judged(1e-6, auc=0.7, published=0.7)
    judged(0.01, auc=0.7, published=0.6995, dtype="u8")
    for wrong in (2e-5, float("inf")):
        with pytest.raises(VersionError, match="not published"):
            judged(wrong, auc=0.7, published=0.7)
    with pytest.raises(VersionError, match=r"falls from 0\.700000 to 0\.690000"):
        judged(0.01, auc=0.7, published=0.69, dtype="u8")


def test_the_kept_sample_holds_what_the_trainer_predicted(filled: Store, training: Training) -> None:
    learner = open_checkpoint_source(training.run, threads=1).learner
    with opened(filled, 3) as chain:
        sample = chain.sample()
    assert len(sample.batch) == 64
    np.testing.assert_array_equal(parity.probabilities(learner, sample.batch), sample.probability)


def test_the_sample_can_be_predicted_again(filled: Store) -> None:
    for version in (1, 2, 3):
        assert parity.check_again(filled, version) <= 1e-5


def test_a_sample_that_does_not_fit_is_refused(filled: Store, tmp_path: Path) -> None:
    with opened(filled, 3) as chain:
        schema, content = chain.schema, (chain.place / chain.manifest.sample).read_bytes()
    for bad in (b"", content[:-4], content[: len(content) // 2], b"\xff" * 100):
        (tmp_path / "bad").write_bytes(bad)
        with pytest.raises(VersionError, match="bad: "):
            read_sample(tmp_path / "bad", schema=schema)


@pytest.mark.heavy
def test_without_data_the_parents_sample_is_used_again(
    filled: Store, training: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher, "paths_of", lambda job: ["/nowhere/at/all.tsv"])
    manifest = publish(training.run, filled, Settings(kind="delta"))
    assert manifest.parity["rows"] == 64
    with pytest.raises(VersionError, match=r"no rows to compare with the trainer: .*/nowhere/at/all\.tsv.*--sample"):
        publish(training.run, filled, Settings(kind="base"))
    assert_nothing_published(filled, last=4)


def test_a_checkpoint_that_a_running_job_drops_meanwhile_gives_way_to_the_newest(
    training: Training, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    newest = checkpoint_source.find_checkpoint(training.run)
    gone = checkpoint_source.Checkpoint(tmp_path / "step-0000000001", newest.manifest)
    answers = iter([gone, newest])
    monkeypatch.setattr(checkpoint_source, "find_checkpoint", lambda source: next(answers))
    assert open_checkpoint_source(training.run, threads=1).checkpoint.path == training.checkpoints[-1]
