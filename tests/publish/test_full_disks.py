"""Publishing without room: an error that says so, a store as it was, and a next try that succeeds with room."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from clickline.errors import VersionError
from clickline.publish.publisher import Settings, publish
from clickline.versions import donefile
from clickline.versions.donefile import DONEFILE, append_version
from clickline.versions.maintenance import verify
from clickline.versions.store import Store, open_store
from support.small_disks import small_disk
from support.versions.trained_run import Training

DIGEST = "0" * 64


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """No file of this process grows beyond this size: a write that would is cut short there, like on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def add(store: Store, version: int) -> None:
    append_version(store, version=version, kind="base", parent=None, sha256=DIGEST)


def test_a_line_that_was_written_in_part_is_an_error_and_leaves_the_donefile_as_it_was(tmp_path: Path) -> None:
    store = open_store(tmp_path / "store")
    for version in (1, 2, 3):
        add(store, version)
    file = tmp_path / "store" / DONEFILE
    before = file.read_bytes()
    length = len(before) // 3
    for more in (0, 1, length // 2 - 1, length // 2, length // 2 + 1, length - 10):  # a time may have fewer digits
        with largest_file(len(before) + more), pytest.raises(VersionError, match=r"versions\.jsonl: cannot be written"):
            add(store, 4)
        assert file.read_bytes() == before
        assert donefile.read(store).last == 3
    with largest_file(len(before) + length + 10):
        add(store, 4)
    assert donefile.read(store).last == 4


def test_writes_that_are_cut_short_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(tmp_path / "store")
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, content, at: pwrite(file, content[:7], at))
    add(store, 1)
    add(store, 2)
    assert donefile.read(store).last == 2


def test_publishing_on_a_full_disk(training: Training, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", size=64 << 20) as disk:
        store = open_store(disk.path / "store")
        room = disk.free
        publish(training.checkpoints[0], store, Settings(kind="base", sample_rows=16))
        taken = room - disk.free
        before = {path: path.read_bytes() for path in disk.path.glob("store/v*/*")}
        lines = (disk.path / "store" / DONEFILE).read_bytes()
        for leave in (0, 4096, taken // 3, taken * 2 // 3):
            disk.fill(leave=leave)
            with pytest.raises(VersionError, match="No space left on device"):
                publish(training.checkpoints[1], store, Settings(kind="base", sample_rows=16))
            assert {path: path.read_bytes() for path in disk.path.glob("store/v*/*")} == before
            assert (disk.path / "store" / DONEFILE).read_bytes() == lines
            assert not list(disk.path.glob("store/.writing-*"))
        disk.make_room()
        assert publish(training.checkpoints[1], store, Settings(kind="base", sample_rows=16)).version == 2
        verify(store, 2)
