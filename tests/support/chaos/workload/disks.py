"""Small file systems of the run's own, so that a disk can be full: tmpfs, bound to where a directory should be.

They are mounted in a mount namespace of the run (`namespaces`), so that nothing of them outlives it.
"""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from pathlib import Path

_BALLAST = "ballast"
_STEP = 1 << 16


class Disks:
    """By name. `usable` is False where nothing may be mounted: directories are then as they are."""

    def __init__(self, place: Path, *, usable: bool) -> None:
        self._place, self.usable = place, usable
        self._mounted: dict[str, tuple[Path, Path]] = {}
        """The file system, and the directory that it is bound to."""

    def mount(self, name: str, directory: Path, *, megabytes: int) -> None:
        """Put a file system of its own below a directory, which is made."""
        directory.mkdir(parents=True, exist_ok=True)
        if not self.usable:
            return
        disk = self._place / name
        disk.mkdir(parents=True)
        _run("mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=755", "tmpfs", str(disk))
        (disk / "data").mkdir()
        _run("mount", "--bind", str(disk / "data"), str(directory))
        self._mounted[name] = (disk, directory)

    def unmount(self) -> None:
        """All of them, whoever still has a file open there."""
        for disk, directory in self._mounted.values():
            for place in (directory, disk):
                subprocess.run(["umount", "-l", str(place)], capture_output=True, check=False)
        self._mounted.clear()

    @property
    def names(self) -> list[str]:
        return list(self._mounted)

    def fill(self, name: str, *, leave: int = 0) -> int:
        """Leave at most so many bytes free, rounded to blocks; returns how many were taken."""
        file = self._mounted[name][0] / _BALLAST
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC)
        try:
            free = os.fstatvfs(descriptor)
            wanted = max(0, free.f_bavail * free.f_frsize - leave)
            size = os.fstat(descriptor).st_size
            with suppress(OSError):
                os.posix_fallocate(descriptor, size, max(1, wanted))
            if not leave:  # others have written meanwhile: take what is left, to the last block
                with suppress(OSError):
                    while os.write(descriptor, bytes(_STEP)):
                        pass
            return os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)

    def free(self, name: str) -> None:
        (self._mounted[name][0] / _BALLAST).unlink(missing_ok=True)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")
