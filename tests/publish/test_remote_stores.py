"""The same where there is no rename, no appending and no lock: any place that fsspec reaches."""

from __future__ import annotations

from pathlib import Path

import pytest

from clickline.errors import VersionError
from clickline.publish.parity import check_again
from clickline.publish.publisher import Settings, publish
from clickline.versions import donefile
from clickline.versions.maintenance import difference, keep, list_versions, rollback, verify
from clickline.versions.store import Store, open_store
from support.versions.trained_run import Training


@pytest.mark.heavy
@pytest.mark.parametrize("kind", ["memory", "file"])
def test_versions_are_published_verified_compared_and_removed(kind: str, training: Training, tmp_path: Path) -> None:
    store = open_store("memory://whole/models" if kind == "memory" else f"file://{tmp_path}/models")
    first, *rest = training.checkpoints
    publish(first, store, Settings(kind="base", sample_rows=16))
    for checkpoint in rest:
        publish(checkpoint, store, Settings(kind="delta", sample_rows=16))
    assert [one["kind"] for one in list_versions(store)] == ["base", "delta", "delta"]
    assert verify(store, 3) == 15
    assert check_again(store, 3) <= 1e-5
    assert not difference(store, 2, 3)["same"]
    publish(rest[-1], store, Settings(kind="base", sample_rows=16))
    assert difference(store, 3, 4)["same"]
    assert keep(store, 1) == [1, 2, 3]
    assert [name for name in store.names() if not name.startswith(".")] == ["v0000000004", "versions.jsonl"]
    with pytest.raises(VersionError, match="no version before 4"):
        rollback(store)


@pytest.mark.heavy
def test_what_an_upload_left_is_invisible_and_cleared_away(training: Training, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store("memory://uploads/models")
    publish(training.run, store, Settings(sample_rows=16))
    store.write("v0000000002/embedding.dict", b"half")
    assert list(donefile.read(store).entries) == [1]
    assert publish(training.run, store, Settings(sample_rows=16)).version == 2
    assert verify(store, 2) == 10

    def full(self: Store, file: Path, name: str) -> None:
        if name.endswith("manifest.json"):
            raise VersionError(f"{name}: no space left")
        self.write(name, file.read_bytes())

    monkeypatch.setattr(Store, "put", full)
    with pytest.raises(VersionError, match="no space left"):
        publish(training.run, store, Settings(sample_rows=16))
    assert donefile.read(store).last == 2
    assert "v0000000003" not in store.names()


def test_an_old_lock_of_another_machine_is_taken_over() -> None:
    store = open_store("memory://locks")
    store.write(".publishing.lock", b'{"host": "elsewhere", "machine": "other", "pid": 1, "born": 1, "time": 5.0}')
    with store.locked("publishing", wait=0.0):  # of 1970
        pass


def test_secrets_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORE_SECRET", "hunter2")
    store = open_store("memory://secret", options={"password": "${env:STORE_SECRET}"})
    assert store.storage.secrets == ("hunter2",)
    assert "hunter2" not in store.storage._scrubbed(OSError("bad login hunter2"))
    assert "hunter2" not in repr(store)


def test_reading_what_is_not_there_names_it() -> None:
    with pytest.raises(VersionError, match="memory://nothing/v1/x: not there"):
        open_store("memory://nothing").read("v1/x", limit=10)
