"""Files of checkpoints that come over the network."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from clickline.errors import CheckpointError
from clickline.train.checkpoints.checkpoint_digests import FileDigest
from clickline.train.checkpoints.received_file import ReceivedFile

CONTENT = bytes(range(200))
DIGEST: FileDigest = {"bytes": len(CONTENT), "sha256": hashlib.sha256(CONTENT).hexdigest()}


def take(file: ReceivedFile, content: bytes) -> None:
    file.take(np.frombuffer(content, np.uint8))


def test_chunks_become_the_file(tmp_path: Path) -> None:
    (tmp_path / "rows").write_bytes(b"of a try before")
    file = ReceivedFile(tmp_path, "rows", DIGEST, sender="pserver.1")
    for first in range(0, len(CONTENT), 64):
        assert not file.complete
        assert file.received == first
        take(file, CONTENT[first : first + 64])
    assert file.complete
    assert (tmp_path / "rows").read_bytes() == CONTENT


@pytest.mark.parametrize("content", [CONTENT[:-1], CONTENT + b"x", CONTENT[::-1], b""])
def test_what_is_not_as_announced_is_refused(tmp_path: Path, content: bytes) -> None:
    file = ReceivedFile(tmp_path, "rows", DIGEST, sender="pserver.1")
    with pytest.raises(CheckpointError, match=r"from pserver.1: .*rows: damaged"):
        for part in (content, b""):
            take(file, part)
    assert not file.complete


@pytest.mark.parametrize("name", ["../rows", "/etc/rows", ".hidden", "a/b"])
def test_a_name_that_leaves_the_directory_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(CheckpointError, match="leaves the checkpoint's directory"):
        ReceivedFile(tmp_path / "checkpoint", name, DIGEST, sender="pserver.1")


def test_a_disk_that_takes_nothing_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="rows: cannot be written"):
        ReceivedFile(tmp_path / "gone", "rows", DIGEST, sender="pserver.1")
