"""A version with a changed byte is refused, whichever byte it is, and the version before goes on being served."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import fsspec
import pytest

from clickline.files.leftovers import being_written
from clickline.serve.predictor.predictor import Predictor
from clickline.serve.predictor.served_model import ServedModel
from clickline.versions import file_copy
from clickline.versions.chain import opened
from clickline.versions.store import open_store
from support.bit_flips import flip_bit
from support.eventually import eventually
from support.serving.raw_rows import Recorded, ask, assert_close
from support.versions.known_versions import Known

FILES = [
    "v0000000003/embedding.dict",
    "v0000000003/linear.dict",
    "v0000000003/network.onnx",
    "v0000000003/sample.safetensors",
    "v0000000003/manifest.json",
    "v0000000002/embedding.dict",
]
"""Version 3 is a delta on 2, which is one on 1."""


@pytest.mark.parametrize("name", FILES)
def test_a_flipped_bit_anywhere_is_refused_and_the_version_before_goes_on(known: Known, name: str) -> None:
    counts = Recorded()
    known.switch(1)
    served = ServedModel("ctr", known.store, interval=1e-9, counts=counts)
    file = Path(known.store.url) / name
    with Predictor({"ctr": served}) as predictor:
        eventually(predictor.ready)
        known.switch(3)
        eventually(lambda: served.model_version().version == 3)  # all of it is sound so far
        known.switch(1)
        eventually(lambda: served.model_version().version == 1)
    refused = ServedModel("ctr", known.store, interval=3600, counts=counts)
    assert refused.refresh()
    size = file.stat().st_size
    known.switch(3)
    with Predictor({"ctr": refused}) as predictor:
        for number, offset in enumerate(range(0, size, -(-size // 12)), 1):
            flip = flip_bit(file, offset, number % 8)
            refused._failure = None  # do not wait for the next try
            assert not refused.refresh(), flip
            failure = refused.status()["failure"]
            assert failure["version"] == 3 and f"{name}: damaged: its SHA-256 is" in failure["error"]
            assert counts.counted["clickline_version_failures_total", ""] == number
            assert flip.undo()
        assert_close(ask(predictor, known.rows).probability, known.expected[1])
        refused._failure = None
        assert refused.refresh()
        assert_close(ask(predictor, known.rows).probability, known.expected[3])


def test_what_comes_from_a_store_elsewhere_is_checked_while_it_is_copied(known: Known, tmp_path: Path) -> None:
    known.switch(1)
    for lock in Path(known.store.url).glob(".*.lock"):
        lock.unlink()
    system = fsspec.filesystem("memory")
    system.put(f"{known.store.url}/", f"/{tmp_path.name}/", recursive=True)
    elsewhere = open_store(f"memory://{tmp_path.name}")
    served = ServedModel("ctr", elsewhere, interval=3600)
    path = f"/{tmp_path.name}/v0000000001/embedding.dict"
    good = system.cat_file(path)
    changed = bytearray(good)
    changed[-5] ^= 16
    system.pipe_file(path, bytes(changed))
    assert not served.refresh()
    assert "embedding.dict: damaged: its SHA-256 is" in served.status()["failure"]["error"]
    system.pipe_file(path, good)
    served._failure = None
    assert served.refresh()


def test_every_file_is_hashed_once_and_none_for_a_request(known: Known, monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: Counter[str] = Counter()
    file_sha256 = file_copy.file_sha256

    def counted(path: Path) -> str:
        hashed["/".join(Path(path).parts[-2:])] += 1
        return file_sha256(path)

    monkeypatch.setattr(file_copy, "file_sha256", counted)
    known.switch(1)
    served = ServedModel("ctr", known.store, interval=3600)
    assert served.refresh()
    known.switch(3)
    assert served.refresh()
    known.switch(1)
    assert served.refresh()
    rows = [f"v000000000{version}/{table}.dict" for version in (1, 2, 3) for table in ("embedding", "linear")]
    own = [f"v000000000{version}/{file}" for version in (1, 3) for file in ("network.onnx", "sample.safetensors")]
    assert hashed == dict.fromkeys(rows + own, 1)
    with Predictor({"ctr": served}) as predictor:
        assert_close(ask(predictor, known.rows).probability, known.expected[1])
    assert hashed.total() == len(rows + own)


def test_copies_that_a_killed_predictor_left_are_removed(known: Known, tmp_path: Path) -> None:
    code = f"""
import os, signal, tempfile
tempfile.tempdir = {str(tmp_path)!r}
from clickline.versions.chain import opened
from clickline.versions.store import open_store
with opened(open_store({known.store.url!r}), 1) as chain:
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL
    (left,) = tmp_path.glob("clickline-versions-*")
    (tmp_path / "clickline-versions-of-somebody").mkdir()
    with being_written(tmp_path / "clickline-versions-under-way") as under_way, pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(tmp_path))
        for path in (left, under_way):
            os.utime(path, (1e9, 1e9))
        with opened(known.store, 1):
            assert not left.exists()
        assert under_way.exists()
    assert (tmp_path / "clickline-versions-of-somebody").exists()  # made a moment ago
