"""A store of versions: a directory, or any URL that fsspec knows.

A directory gets what a file system promises: files are synced, a version appears by one rename, the donefile grows by
appending. Elsewhere a version's files are put in their place one by one, its manifest last, and the donefile is read
and written anew; until its line is there, no reader looks at the version. Beware: where objects cannot be created
exclusively, two publishers must not be started within the same instant (docs/publishing.md).
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from clickline.config.secrets.secret_references import resolve
from clickline.errors import VersionError
from clickline.files.locks import open_lock_file, try_lock
from clickline.files.storage import is_local, open_storage
from clickline.objects.object_lock import ObjectLock, holder_record
from clickline.objects.object_store import ObjectStore

WRITING = ".writing-"
LOCK_WAIT = 600.0
"""Seconds that a publisher waits for another one."""


@dataclass(frozen=True)
class Store(ObjectStore):
    """An object store in which versions are kept."""

    directory: Path | None
    """If it is a directory of this machine."""

    def remove(self, folder: str) -> None:
        """Remove a folder and everything in it, if it exists."""
        if self.directory is None:
            super().remove(folder)
            return
        with self.explained(folder):
            shutil.rmtree(self.directory / folder, ignore_errors=True)

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
