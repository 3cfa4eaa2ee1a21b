"""What makes files outlive a crash, and tells whether a process did.

Imports nothing of the project: any layer may use it.
"""

from __future__ import annotations

import os
from pathlib import Path


def write_synced(path: Path, content: bytes) -> None:
    """Write a file and wait until it is on the disk."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def sync_directory(path: os.PathLike[str] | str) -> None:
    """Wait until what was made, renamed or removed in a directory is on the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def alive(pid: int) -> bool:
    """Whether a process of this machine is there."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
