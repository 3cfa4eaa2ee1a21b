"""File locks by flock(2): the kernel releases one when the process that holds it is gone, whichever way it went.

A lock belongs to an open file, so it lasts until that file is closed; `open_lock_file` opens one that children do not
inherit. Beware: never remove a lock file that somebody may be waiting for. Imports nothing of the project.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol


class HasDescriptor(Protocol):
    """An open file."""

    def fileno(self) -> int: ...


def open_lock_file(path: Path, *, mode: int = 0o644) -> int:
    """Open a lock file, which is made if it is not there. Gives its descriptor: whoever closes it releases the lock."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, mode)


def lock(file: int | HasDescriptor, *, shared: bool = False) -> None:
    """Lock an open file, and wait for those that hold it. Holders of a shared lock do not exclude each other."""
    fcntl.flock(file, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)


def try_lock(file: int | HasDescriptor, *, shared: bool = False) -> bool:
    """Lock an open file unless another process holds it; whether it is locked now. Raises OSError without flock."""
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def unlock(file: int | HasDescriptor) -> None:
    """Release the lock of a file that stays open."""
    fcntl.flock(file, fcntl.LOCK_UN)


@contextmanager
def holding(descriptor: int, *, shared: bool = False, wait: bool = True) -> Iterator[None]:
    """Hold the lock of a file that is open, and close it at the end.

    Without `wait`, raises BlockingIOError if another process holds the lock.
    """
    try:
        if wait:
            lock(descriptor, shared=shared)
        elif not try_lock(descriptor, shared=shared):
            raise BlockingIOError("locked by another process")
        yield
    finally:
        os.close(descriptor)


@contextmanager
def locked(path: Path, *, shared: bool = False, wait: bool = True, mode: int = 0o644) -> Iterator[None]:
    """Hold the lock of a file that is made if it is not there, as `holding` does."""
    with holding(open_lock_file(path, mode=mode), shared=shared, wait=wait):
        yield
