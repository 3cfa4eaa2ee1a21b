"""Uploads: written to a temporary file, checked, synced, then renamed. No reader sees half of one.

A file being written is called `.upload-…` and is locked, so that a cleanup after a crash can tell what a dead process
left from what another one is writing. Everything here may block and runs in threads.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import secrets
from pathlib import Path
from typing import BinaryIO

from clickline.files.atomic import sync_directory
from clickline.files.locks import lock, try_lock, unlock
from clickline.fileserver.served_directory import NotServed, OpenFile, ServedDirectory

_PREFIX = ".upload-"
log = logging.getLogger(__name__)


class UploadRefused(Exception):
    """Raised when an upload is refused, with the HTTP status of the answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Upload:
    """An upload: write, then finish, or drop."""

    def __init__(self, root: ServedDirectory, path: str, *, limit: int) -> None:
        self._target, self._limit = _target(root, path), limit
        # Beside the target, so that the rename stays within one file system.
        self._temporary = self._target.parent / f"{_PREFIX}{secrets.token_hex(8)}"
        self._file: BinaryIO | None = self._temporary.open("x+b")
        lock(self._file)
        self._digest = hashlib.sha256()
        self.size = 0

    def write(self, data: bytes) -> None:
        assert self._file is not None  # noqa: S101
        if self.size + len(data) > self._limit:
            raise UploadRefused(413, f"the file is larger than {self._limit} bytes, the limit of this server")
        self._file.write(data)
        self._digest.update(data)
        self.size += len(data)

    def finish(self, *, expected: str | None) -> tuple[OpenFile, str, bool]:
        """Put it in place. Gives the file, open, its SHA-256, and whether there was none before."""
        assert self._file is not None  # noqa: S101
        sha256 = self._digest.hexdigest()
        if expected is not None and expected.strip().lower() != sha256:
            raise UploadRefused(400, f"the bytes that came have the SHA-256 {sha256}, not the one of the header")
        # Content, name, directory, in this order: after a loss of power there is the old file or all of the new one.
        self._file.flush()
        os.fsync(self._file.fileno())
        is_new = not self._target.exists()
        try:
            self._temporary.replace(self._target)
        except OSError as error:
            raise UploadRefused(409, f"the file cannot be put in place: {error.strerror}") from None
        sync_directory(self._target.parent)
        # Of the open file: the target may be another upload's by now.
        status = os.fstat(self._file.fileno())
        # The duplicate shares the lock, so closing this file would not release it.
        unlock(self._file)
        descriptor = os.dup(self._file.fileno())
        self._file.close()
        self._file = None
        return OpenFile(self._target, descriptor, status.st_size, status.st_mtime_ns, status.st_ino), sha256, is_new

    def drop(self) -> None:
        """Remove the temporary file, unless the upload is finished."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._temporary.unlink()
            with contextlib.suppress(OSError):  # what it still held back may not fit on the disk
                self._file.close()
            self._file = None


def clean(root: ServedDirectory) -> int:
    """Remove what uploads of a dead process left; gives how many."""
    removed = 0
    for directory, _, names in os.walk(root.path):
        for name in names:
            if name.startswith(_PREFIX) and _is_abandoned(place := Path(directory) / name):
                with contextlib.suppress(OSError):
                    place.unlink()
                    removed += 1
                    log.warning("removed %s, left by an upload that did not end", place)
    return removed


def _target(root: ServedDirectory, path: str) -> Path:
    try:
        parts = root.parts(path)
    except NotServed:
        raise UploadRefused(400, "that is not a path for a file: no part may be empty or start with a dot") from None
    if not parts or path.endswith("/"):
        raise UploadRefused(400, "a file needs a name: the path ends with a slash")
    parent = root.path
    for part in parts[:-1]:
        try:
            # Resolved and compared one by one, before anything is made below: a link on the way must not lead out of
            # the root.
            (parent / part).mkdir(exist_ok=True)
            parent = (parent / part).resolve(strict=True)
        except (OSError, RuntimeError):
            raise UploadRefused(409, f"'{part}' on the way is not a directory") from None
        if not parent.is_relative_to(root.path):
            raise UploadRefused(409, f"'{part}' on the way is not a directory")
    target = parent / parts[-1]
    if target.is_dir():
        raise UploadRefused(409, "there is a directory of that name")
    return target


def _is_abandoned(place: Path) -> bool:
    try:
        with place.open("rb") as file:
            return try_lock(file)
    except OSError:
        return False
