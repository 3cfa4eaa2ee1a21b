"""Staging directories: locked for as long as a process writes them, and removed once none does.

A process that stages a version (`.downloading-…`, `.compact_…`) or copies one to this machine holds a lock on the
directory, which the kernel releases when the process dies. So what a dead process left can be told from what another
one is writing, and any process that finds it may remove it, at any time."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from clickline.files.locks import lock, try_lock

log = logging.getLogger(__name__)
_YOUNG = 60.0


@contextmanager
def being_written(path: Path, *, anew: bool = False) -> Iterator[Path]:
    """Make the directory and hold its lock. With `anew`, what is in it is removed before, and what is left after."""
    descriptor = _locked(path)
    try:
        for entry in path.iterdir() if anew else ():
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        yield path
    finally:
        # Before the lock is released: afterwards another process may have begun to write there.
        if anew:  # once it was renamed there is nothing of this name
            shutil.rmtree(path, ignore_errors=True)
        os.close(descriptor)


def abandoned(directories: Iterable[Path]) -> Iterator[Path]:
    """The directories that no process writes. Each is locked while the caller has it."""
    for path in directories:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue  # it was renamed meanwhile, or is not a directory
        try:
            if try_lock(descriptor):
                yield path
        finally:
            os.close(descriptor)


@contextmanager
def scratch_directory(prefix: str) -> Iterator[Path]:
    """A temporary directory, gone afterwards. Those that processes left which were killed are removed first."""
    for path in abandoned(path for path in Path(tempfile.gettempdir()).glob(f"{prefix}*") if _is_ours_and_old(path)):
        remove_leftover(path)
    with tempfile.TemporaryDirectory(prefix=prefix) as name, being_written(Path(name)) as path:
        yield path


def remove_leftover(path: Path) -> None:
    """Remove what `abandoned` found, and say so."""
    shutil.rmtree(path, ignore_errors=True)
    log.info("removed %s, which was never finished", path)


def _is_ours_and_old(path: Path) -> bool:
    """Not one of another user, nor one that was made a moment ago and may not be locked yet."""
    try:
        status = path.lstat()
    except OSError:
        return False
    return status.st_uid == os.getuid() and time.time() - status.st_mtime > _YOUNG


def _locked(path: Path) -> int:
    while True:
        path.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue  # it was taken for a leftover and removed before it could be opened
        try:
            lock(descriptor)
            # flock locks an inode and not a name: while we waited, the directory may have been removed and made again.
            with suppress(FileNotFoundError):
                if path.stat().st_ino == os.fstat(descriptor).st_ino:
                    return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # it was removed before we had the lock
