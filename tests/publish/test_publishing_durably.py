"""What a machine that loses power must not lose: files are on disk before the name, and the name before the line.

Row files are written and synced by native code, which this process does not see.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from clickline.publish.publisher import Settings, publish
from clickline.versions import donefile
from clickline.versions.store import open_store
from support.versions.trained_run import Training


@pytest.mark.heavy
def test_a_version_gets_its_name_when_its_files_are_on_disk_and_its_line_after_that(
    training: Training, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path / "store")
    done: list[str] = []
    fsync, rename = os.fsync, Path.rename

    def synced(descriptor: int) -> None:
        fsync(descriptor)
        done.append(f"synced {Path(f'/proc/self/fd/{descriptor}').readlink().name}")

    def renamed(path: Path, target: Path) -> Path:
        done.append(f"named {Path(target).name}")
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "rename", renamed)
    manifest = publish(training.run, store, Settings(kind="base", sample_rows=16))
    named = done.index("named v0000000001")
    in_python = {name for name in manifest.files if not name.endswith(".dict")} | {"manifest.json"}
    assert {f"synced {name}" for name in in_python} <= set(done[:named])
    directory, line = done.index("synced store", named), done.index(f"synced {donefile.DONEFILE}", named)
    assert directory < line, "the directory that has the new name is on disk before the line that speaks of it"
