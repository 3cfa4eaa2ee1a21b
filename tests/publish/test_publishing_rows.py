"""A base and deltas, published from one training's checkpoints, read as the trainer's own rows, bit for bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from clickline import _native
from clickline.errors import VersionError
from clickline.publish.checkpoint_source import open_checkpoint_source
from clickline.publish.publisher import Settings, publish
from clickline.versions import donefile
from clickline.versions.chain import opened
from clickline.versions.maintenance import difference, list_versions, show, verify
from clickline.versions.store import Store, open_store
from support.versions.trained_run import Training


def assert_same_rows(store: Store, version: int, checkpoint: Path) -> None:
    tables = open_checkpoint_source(checkpoint, threads=1).learner.sparse.tables
    with opened(store, version) as chain:
        for name, table in tables.items():
            keys = table.keys()
            status, values = _native.Layers(chain.layers[name]).lookup(keys)
            assert not np.asarray(status).any()
            assert np.asarray(values).tobytes() == table.rows(keys).tobytes()
            assert chain.manifest.tables[name].total == len(keys)


def test_every_version_of_a_chain_reads_as_its_checkpoint(filled: Store, training: Training) -> None:
    for version, checkpoint in enumerate(training.checkpoints, 1):
        assert_same_rows(filled, version, checkpoint)


def test_rows_that_were_evicted_are_gone(filled: Store, training: Training) -> None:
    tables = [
        open_checkpoint_source(checkpoint, threads=1).learner.sparse.tables for checkpoint in training.checkpoints
    ]
    gone = np.setdiff1d(tables[0]["embedding"].keys(), tables[1]["embedding"].keys())
    assert len(gone)
    assert show(filled, 2).tables["embedding"].deleted == len(gone)
    with opened(filled, 2) as chain:
        status, values = _native.Layers(chain.layers["embedding"]).lookup(gone)
        assert (np.asarray(status) == 1).all()
        assert not np.asarray(values).any()


@pytest.mark.heavy
def test_a_base_of_the_same_checkpoint_does_not_differ(filled: Store, training: Training) -> None:
    manifest = publish(training.checkpoints[-1], filled, Settings(kind="base", sample_rows=64))
    assert (manifest.version, manifest.kind, manifest.parent, manifest.base) == (4, "base", None, 4)
    facts = difference(filled, 3, 4)
    assert facts["same"], facts


def test_differences_count_rows_added_changed_and_removed(filled: Store, training: Training) -> None:
    one, other = (
        open_checkpoint_source(path, threads=1).learner.sparse.tables["linear"] for path in training.checkpoints[:2]
    )
    facts = difference(filled, 1, 2)
    both = np.intersect1d(one.keys(), other.keys())
    assert facts["tables"]["linear"] == {
        "rows added": len(np.setdiff1d(other.keys(), one.keys())),
        "rows changed": int((one.rows(both) != other.rows(both)).any(axis=1).sum()),
        "rows removed": len(np.setdiff1d(one.keys(), other.keys())),
    }
    assert facts["network_max_difference"] > 0


def test_a_manifest_tells_where_the_version_came_from(filled: Store, training: Training) -> None:
    manifest = show(filled, 3)
    assert manifest.watermark is None  # Criteo text has no times
    assert manifest.training["step"] == 45
    assert manifest.training["rows"] == 4500
    assert manifest.training["auc"] == manifest.training["figures"]["test"]["auc"] > 0.5
    assert len(manifest.training["job_digest"]) == 64
    assert manifest.parity["max_difference"] <= 1e-5
    assert manifest.inputs["embedding"]["shape"] == ["batch", 39, 4]
    assert manifest.outputs["probability"]["labels"] == ["label"]
    assert [one["serving"] for one in list_versions(filled)] == [False, False, True]


@pytest.mark.heavy
def test_auto_publishes_a_base_first_and_a_delta_only_if_it_is_smaller(training: Training, tmp_path: Path) -> None:
    store = open_store(tmp_path / "store")
    kinds = [publish(training.checkpoints[-1], store, Settings(sample_rows=16)).kind for _ in range(2)]
    assert kinds == ["base", "delta"]  # of the same rows nothing has changed
    assert show(store, 2).tables["embedding"].rows == 0


@pytest.mark.heavy
def test_auto_prefers_a_base_where_most_rows_changed(training: Training, tmp_path: Path) -> None:
    store = open_store(tmp_path / "store")
    publish(training.checkpoints[0], store, Settings(sample_rows=16))
    assert publish(training.checkpoints[-1], store, Settings(sample_rows=16)).kind == "base"
    verify(store, 2)


def test_a_delta_without_a_parent_is_refused(training: Training, tmp_path: Path) -> None:
    store = open_store(tmp_path / "store")
    with pytest.raises(VersionError, match=r"no version yet .* publish a base"):
        publish(training.run, store, Settings(kind="delta"))
    assert donefile.read(store).last == 0


def test_a_delta_of_another_row_type_is_refused(filled: Store, training: Training) -> None:
    with pytest.raises(VersionError, match=r"has fp16 rows of dim .*, version 3 has fp32 of .*: publish a base"):
        publish(training.run, filled, Settings(kind="delta", dtype="fp16"))
    assert donefile.read(filled).last == 3


@pytest.mark.heavy
def test_a_run_means_its_newest_checkpoint(training: Training, tmp_path: Path) -> None:
    manifest = publish(training.run, open_store(tmp_path / "store"), Settings(sample_rows=16))
    assert manifest.training["checkpoint"] == training.checkpoints[-1].name
