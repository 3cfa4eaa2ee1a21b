"""A disk that is soon full: a small tmpfs of the test's own. Needs root; without, the test is skipped and says why."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


class SmallDisk:
    """Where it is mounted, and what fills it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._filler = path / ".filler"

    @property
    def free(self) -> int:
        facts = os.statvfs(self.path)
        return facts.f_bavail * facts.f_frsize

    def fill(self, *, leave: int = 0) -> None:
        """Take all room but `leave` bytes, rounded down to pages."""
        self.make_room()
        with self._filler.open("wb") as file:
            size = self.free - leave
            if size > 0:
                os.posix_fallocate(file.fileno(), 0, size)

    def make_room(self) -> None:
        self._filler.unlink(missing_ok=True)


@contextmanager
def small_disk(path: Path, *, size: int) -> Iterator[SmallDisk]:
    path.mkdir(parents=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "clickline-test", str(path)]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"a tmpfs cannot be mounted here: {mounted.stderr.strip()}")
    try:
        yield SmallDisk(path)
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)
