"""Copies of the files of a remote store, made once for all processes of this machine that read them.

    <cache>/<store>/v0000000012/embedding.dict     a whole file; it gets this name when it is complete and checked
    <cache>/<store>.fetch                          locked by the process that downloads; the others wait for it
    <cache>/<store>.use                            locked, shared, by every process that opens a version

Locks belong to the kernel, so a process that is killed holds none; what it left of a file is overwritten by the next
download. A file is compared with its SHA-256 whenever it is opened, and is fetched again if it is damaged. Versions
that are not used any more are removed when another one has been opened; what is mapped stays readable without its file.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from clickline.errors import VersionError
from clickline.files.atomic import replace_file
from clickline.files.cache_directory import VARIABLE, user_cache
from clickline.files.digests import file_sha256
from clickline.files.leftovers import scratch_directory
from clickline.files.locks import holding, locked, open_lock_file
from clickline.versions.donefile import DonefileEntry, directory_of, manifest_of
from clickline.versions.file_copy import fetch_checked
from clickline.versions.manifest import LIMIT, Manifest, checked_manifest, read_manifest
from clickline.versions.store import Store

DIRECTORY = VARIABLE
"""Environment variable: where the cache lies."""
SCRATCH = "clickline-versions-"
"""How temporary directories begin to which files are copied for one process."""
FORGET_AFTER = 30 * 86400.0
"""Seconds after which the files of a store that was not opened are removed."""
_PART = ".part"


class VersionFiles(Protocol):
    """Files of a store's versions, on this machine and checked."""

    def manifest(self, entry: DonefileEntry) -> Manifest: ...

    def path(self, manifest: Manifest, file: str) -> Path: ...


class ScratchFiles:
    """The files of a directory themselves; of a remote store, copies that live as long as the `with` block."""

    def __init__(self, store: Store, scratch: Path) -> None:
        self._store, self._scratch = store, scratch

    @classmethod
    @contextmanager
    def of(cls, store: Store) -> Iterator[ScratchFiles]:
        with scratch_directory(SCRATCH) as scratch:
            yield cls(store, scratch)

    def manifest(self, entry: DonefileEntry) -> Manifest:
        return read_manifest(self._store, entry)

    def path(self, manifest: Manifest, file: str) -> Path:
        name, expected = f"{directory_of(manifest.version)}/{file}", manifest.files[file]
        return fetch_checked(self._store, name, self._scratch / name, size=expected.bytes, sha256=expected.sha256)


class VersionCache:
    """The copies of one store's files that all processes of this machine and user share."""

    def __init__(self, store: Store, root: Path) -> None:
        self._store, self._root = store, root
        self._name = hashlib.sha256(store.url.encode()).hexdigest()[:32]  # a URL may hold a password
        self.directory = root / self._name

    @classmethod
    def of(cls, store: Store) -> VersionCache | None:
        """None for a store that needs no copies: a directory, or memory of this process."""
        if store.directory is not None or store.url.startswith("memory:"):
            return None
        return cls(store, cache_directory())

    @contextmanager
    def opening(self, versions: Iterable[int]) -> Iterator[VersionFiles]:
        """Hold the files of these versions. Afterwards, if all went well, those of other versions are removed."""
        with self._locked("use", shared=True):
            # The time of the lock file says when this store was last opened; `_clean` forgets stores by it.
            os.utime(self._root / f"{self._name}.use")
            yield self
        # After the `with`: the exclusive lock that `_clean` tries to take conflicts with our own shared one, since
        # flock locks belong to the open file and not to the process.
        self._clean({directory_of(version) for version in versions})

    def manifest(self, entry: DonefileEntry) -> Manifest:
        path = self.directory / manifest_of(entry.version)
        where = self._store.shown(manifest_of(entry.version))
        with suppress(OSError, VersionError):
            return checked_manifest(_read_small(path), entry, where=where)
        with self._locked("fetch"):
            with suppress(OSError, VersionError):  # another process was faster
                return checked_manifest(_read_small(path), entry, where=where)
            content = self._store.read(manifest_of(entry.version), limit=LIMIT)
            manifest = checked_manifest(content, entry, where=where)
            with self._written(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                replace_file(path, content, synced=False)
            return manifest

    def path(self, manifest: Manifest, file: str) -> Path:
        expected = manifest.files[file]
        name = f"{directory_of(manifest.version)}/{file}"
        path = self.directory / name
        # Without the lock at first: hashing a large file that is here must not hold up another process's download.
        if _is_whole(path, expected.bytes, expected.sha256):
            return path
        with self._locked("fetch"):
            # Another process may have fetched it while this one waited for the lock.
            if _is_whole(path, expected.bytes, expected.sha256):
                return path
            part = self.directory / _PART  # used under the lock only; what a killed process left is overwritten
            part.unlink(missing_ok=True)
            fetch_checked(self._store, name, part, size=expected.bytes, sha256=expected.sha256)
            with self._written(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                part.replace(path)
            return path

    def _clean(self, needed: set[str]) -> None:
        """Remove other versions, unless a process is opening one: it does so when it is done."""
        with suppress(BlockingIOError), self._locked("use", wait=False):
            for folder in self.directory.glob("v*"):
                if folder.name not in needed:
                    shutil.rmtree(folder, ignore_errors=True)
        for lock in self._root.glob("*.use"):
            with suppress(OSError):
                if time.time() - lock.stat().st_mtime > FORGET_AFTER:
                    _forget(lock)

    @contextmanager
    def _locked(self, kind: str, *, shared: bool = False, wait: bool = True) -> Iterator[None]:
        with self._written(self._root):
            self.directory.mkdir(parents=True, exist_ok=True)
            descriptor = open_lock_file(self._root / f"{self._name}.{kind}", mode=0o600)
        with holding(descriptor, shared=shared, wait=wait):
            yield

    @contextmanager
    def _written(self, path: Path) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise VersionError(
                f"{path}: cannot be written: {error.strerror or error}; {DIRECTORY} names another directory for copies "
                f"of {self._store.url}"
            ) from error


def cache_directory() -> Path:
    """Where copies of versions lie."""
    return user_cache("versions", error=VersionError)


def _forget(lock: Path) -> None:
    """Remove the files of a store that was not opened for long. Raises BlockingIOError if it is open now."""
    with locked(lock, wait=False, mode=0o600):
        # The lock file stays: a process that waits for it would then hold a lock that later processes cannot see.
        shutil.rmtree(lock.with_suffix(""), ignore_errors=True)


def _is_whole(path: Path, size: int, sha256: str) -> bool:
    try:
        return path.stat().st_size == size and file_sha256(path) == sha256
    except OSError:
        return False


def _read_small(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(LIMIT + 1)
