"""A store of versions: a directory, or any URL that fsspec knows.

A directory gets what a file system promises: files are synced, a version appears by one rename, the donefile grows by
appending. Elsewhere a version's files are put in their place one by one, its manifest last, and the donefile is read
and written anew; until its line is there, no reader looks at the version. Beware: where objects cannot be created
exclusively, two publishers must not be started within the same instant (docs/publishing.md).
"""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clickline.config.secret_references import resolve
from clickline.errors import VersionError
from clickline.files.locks import open_lock_file, try_lock
from clickline.files.storage import Storage, is_local, open_storage
from clickline.versions.object_lock import ObjectLock, holder_record

WRITING = ".writing-"
LOCK_WAIT = 600.0
"""Seconds that a publisher waits for another one."""
_LOCK_LIMIT = 4096
_READ_TRIES = 5
_EXCLUSIVE = {"s3", "s3a", "memory"}
"""Protocols whose `pipe_file(mode="create")` is known to be atomic."""


@dataclass(frozen=True)
class Store:
    """A store. Names are relative to it, with `/`; they are our own or were checked."""

    url: str
    """As the user wrote it."""
    storage: Storage = field(repr=False)
    root: str
    directory: Path | None
    """If it is a directory of this machine."""

    @property
    def system(self) -> Any:
        """The file system, of fsspec."""
        return self.storage.system

    def shown(self, name: str = "") -> str:
        """A path for messages."""
        return f"{self.url.rstrip('/')}/{name}" if name else self.url

    def exists(self, name: str = "") -> bool:
        with self.explained(name):
            # fsspec caches listings of directories, and other processes publish and remove meanwhile.
            self.system.invalidate_cache()
            return bool(self.system.exists(self._path(name)))

    def read(self, name: str, *, limit: int) -> bytes:
        """A small file. One that is larger than `limit` is refused without reading on."""
        with self.explained(name):
            content = self._read(name, limit)
        if len(content) > limit:
            raise VersionError(f"{self.shown(name)}: larger than {limit} bytes, which is the limit for such a file")
        return content

    def find(self, name: str) -> bytes | None:
        """A lock object, or None if there is none of this name."""
        with self.explained(name):
            try:
                return self._read(name, _LOCK_LIMIT)
            except FileNotFoundError:
                return None

    def create(self, name: str, content: bytes) -> bool:
        """Write an object that must not exist yet; whether it is ours now."""
        with self.explained(name):
            self.system.makedirs(self.root, exist_ok=True)
            if not _EXCLUSIVE.isdisjoint(_protocols(self.system)):
                try:
                    self.system.pipe_file(self._path(name), content, mode="create")
                except OSError:
                    # It exists, perhaps by our own request: one whose answer was lost is sent again.
                    if (found := self.find(name)) is None:
                        raise
                    return found == content
                return True
            # Without an exclusive create there is a gap between looking and writing (docs/publishing.md).
            if self.find(name) is not None:
                return False
            self.system.pipe_file(self._path(name), content)
            # Of two writers that overlap, the later one wins and the other finds a record that is not its own. This
            # narrows the gap but does not close it.
            return self.find(name) == content

    def delete(self, name: str) -> None:
        """Delete an object, if it exists."""
        with self.explained(name), suppress(FileNotFoundError):
            self.system.rm_file(self._path(name))

    def _read(self, name: str, limit: int) -> bytes:
        for attempt in range(_READ_TRIES):
            self.system.invalidate_cache()
            try:
                with self.system.open(self._path(name), "rb") as file:
                    # One byte more than allowed is enough to notice that a file is too large.
                    content: bytes = file.read(limit + 1)
                return content
            except OSError as error:
                # s3fs compares ETags: the object was replaced between its size and its content.
                if error.errno != errno.EBUSY or attempt == _READ_TRIES - 1:
                    raise
        raise AssertionError("unreachable")

    def pieces(self, name: str, *, size: int = 1 << 20) -> Iterator[bytes]:
        """A file of any size, piece by piece."""
        with self.explained(name), self.system.open(self._path(name), "rb") as file:
            while piece := file.read(size):
                yield piece

    def names(self, folder: str = "") -> list[str]:
        """Names directly in a folder, hidden ones too; none if there is no such folder."""
        with self.explained(folder):
            self.system.invalidate_cache()
            path = self._path(folder)
            if not self.system.isdir(path):
                return []
            return sorted(entry.rstrip("/").rpartition("/")[2] for entry in self.system.ls(path, detail=False))

    def remove(self, folder: str) -> None:
        """Remove a folder and everything in it, if it exists."""
        with self.explained(folder):
            if self.directory is not None:
                shutil.rmtree(self.directory / folder, ignore_errors=True)
            elif self.system.exists(self._path(folder)):
                self.system.rm(self._path(folder), recursive=True)

    def put(self, file: Path, name: str) -> None:
        """Copy a local file into a store that has no rename."""
        with self.explained(name):
            self.system.makedirs(self._path(name).rpartition("/")[0], exist_ok=True)
            self.system.put_file(str(file), self._path(name))

    def write(self, name: str, content: bytes) -> None:
        """Write a small file as a whole, in a store that cannot append."""
        with self.explained(name):
            self.system.makedirs(self.root, exist_ok=True)
            self.system.pipe_file(self._path(name), content)

    @contextmanager
    def locked(self, what: str, *, wait: float = LOCK_WAIT, say: Callable[[str], None] | None = None) -> Iterator[None]:
        """Hold the lock `what` of this store. Waits for its holder, and says so; a dead process holds nothing."""
        name = f".{what}.lock"
        give_up = time.monotonic() + wait
        announced = False
        while (release := self._try_lock(name)) is None:
            if time.monotonic() > give_up:
                raise VersionError(
                    f"{self.shown(name)}: held by {self._holder(name)} for more than {wait:.0f} s; if that process has "
                    "ended, delete this file"
                )
            if say is not None and not announced:
                say(f"waiting for {self._holder(name)}")
                announced = True
            time.sleep(0.05 if self.directory is not None else 0.5)  # elsewhere each try is a request
        try:
            yield
        finally:
            release()

    def _try_lock(self, name: str) -> Callable[[], None] | None:
        if self.directory is not None:
            return self._lock_file(self.directory, name)
        lock = ObjectLock(self, name)
        return lock.release if lock.acquire() else None

    def _lock_file(self, directory: Path, name: str) -> Callable[[], None] | None:
        with self.explained(name):
            directory.mkdir(parents=True, exist_ok=True)
            descriptor = open_lock_file(directory / name)
        if not try_lock(descriptor):
            os.close(descriptor)
            return None
        with suppress(OSError):  # for the message of a process that waits; a full disk does not matter
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, holder_record(), 0)
        return lambda: os.close(descriptor)

    def _holder(self, name: str) -> str:
        return ObjectLock(self, name).holder()

    def _path(self, name: str) -> str:
        return f"{self.root}/{name}" if name else self.root

    @contextmanager
    def explained(self, name: str) -> Iterator[None]:
        """Turn an error of the file system into a VersionError that names the file."""
        with self.storage.explained(self.shown(name)):
            yield


def open_store(url: str | Path, *, options: Mapping[str, str] | None = None, must_exist: bool = False) -> Store:
    """A store by path or URL. `options` are fsspec's; secrets in them as ${env:NAME}."""
    text = str(url)
    storage, root = open_storage(text, options or {}, resolve=resolve, error=VersionError)
    store = Store(text, storage, root.rstrip("/"), Path(root) if is_local(text) else None)
    if must_exist and not store.exists():
        raise VersionError(f"{text}: there is no such store; `clickline publish RUN --to {text}` makes one")
    if store.directory is not None and store.directory.exists() and not store.directory.is_dir():
        raise VersionError(f"{text}: a file, not a directory; versions are kept in a directory or at a URL")
    return store


def _protocols(system: Any) -> set[str]:
    return {system.protocol} if isinstance(system.protocol, str) else set(system.protocol)
