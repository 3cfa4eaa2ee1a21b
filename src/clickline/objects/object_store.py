"""Objects below a URL: read, written and created exclusively, in whatever fsspec reaches.

Names are relative to the store, with `/`; they are our own or were checked. Beware: fsspec caches listings of
directories, and other processes write meanwhile, so everything here looks again.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from clickline.files.storage import Storage

SMALL = 4096
"""Bytes of a lock object, at most."""
_READ_TRIES = 5
_EXCLUSIVE = {"s3", "s3a", "memory"}
"""Protocols whose `pipe_file(mode="create")` is known to be atomic."""
_WITHOUT_FOLDERS = {"s3", "s3a"}
"""Protocols where a folder is part of an object's name. To make one could only make the bucket."""


class ListedObject(NamedTuple):
    """An object as a listing shows it."""

    bytes: int
    fingerprint: str
    """Changes when the object is written again."""


@dataclass(frozen=True)
class ObjectStore:
    """A place for objects."""

    url: str
    """As the user wrote it."""
    storage: Storage = field(repr=False)
    root: str

    @property
    def system(self) -> Any:
        """The file system, of fsspec."""
        return self.storage.system

    def shown(self, name: str = "") -> str:
        """A path for messages."""
        return f"{self.url.rstrip('/')}/{name}" if name else self.url

    def exists(self, name: str = "") -> bool:
        with self.explained(name):
            self.system.invalidate_cache()
            return bool(self.system.exists(self._path(name)))

    def read(self, name: str, *, limit: int) -> bytes:
        """A small file. One that is larger than `limit` is refused without reading on."""
        with self.explained(name):
            content = self._read(name, limit)
        return self._limited(content, name, limit)

    def find(self, name: str, *, limit: int = SMALL) -> bytes | None:
        """A small object, or None if there is none of this name."""
        with self.explained(name):
            try:
                content = self._read(name, limit)
            except FileNotFoundError:
                return None
        return self._limited(content, name, limit)

    def create(self, name: str, content: bytes) -> bool:
        """Write an object that must not exist yet; whether it is ours now."""
        with self.explained(name):
            self._make_folder(self.root)
            if not _EXCLUSIVE.isdisjoint(self._protocols()):
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

    def listing(self, folder: str = "") -> dict[str, ListedObject]:
        """All objects below a folder, by name. A name that would lead out of the store is refused."""
        with self.explained(folder):
            self.system.invalidate_cache()
            try:
                found = self.system.find(self._path(folder), detail=True)
            except FileNotFoundError:
                return {}
        # What a file system calls a path may have a leading slash or not.
        root, listed = self.root.strip("/") + "/", {}
        for path, about in found.items():
            name = path.strip("/").removeprefix(root)
            if path.endswith("/") or about.get("type") == "directory" or not path.strip("/").startswith(root):
                continue
            if any(part in ("", ".", "..") for part in name.split("/")):
                raise self.storage.error(f"{self.shown(name)}: not a name of a file; remove this object")
            listed[name] = ListedObject(int(about.get("size") or 0), _fingerprint(about))
        return listed

    def remove(self, folder: str) -> None:
        """Remove a folder and everything in it, if it exists."""
        with self.explained(folder):
            self.system.invalidate_cache()
            if self.system.exists(self._path(folder)):
                self.system.rm(self._path(folder), recursive=True)

    def put(self, file: Path, name: str) -> None:
        """Copy a local file into a store that has no rename."""
        with self.explained(name):
            self._make_folder(self._path(name).rpartition("/")[0])
            self.system.put_file(str(file), self._path(name))

    def write(self, name: str, content: bytes) -> None:
        """Write a small file as a whole, in a store that cannot append."""
        with self.explained(name):
            self._make_folder(self._path(name).rpartition("/")[0])
            self.system.pipe_file(self._path(name), content)

    @contextmanager
    def explained(self, name: str) -> Iterator[None]:
        """Turn an error of the file system into one of ours that names the file."""
        with self.storage.explained(self.shown(name)):
            yield

    def _limited(self, content: bytes, name: str, limit: int) -> bytes:
        if len(content) > limit:
            raise self.storage.error(
                f"{self.shown(name)}: larger than {limit} bytes, which is the limit for such a file"
            )
        return content

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

    def _make_folder(self, path: str) -> None:
        if _WITHOUT_FOLDERS.isdisjoint(self._protocols()):
            self.system.makedirs(path, exist_ok=True)

    def _path(self, name: str) -> str:
        return f"{self.root}/{name}" if name else self.root

    def _protocols(self) -> set[str]:
        protocol = self.system.protocol
        return {protocol} if isinstance(protocol, str) else set(protocol)


def _fingerprint(about: dict[str, Any]) -> str:
    """S3 has ETags; WebHDFS and others the time of the last change."""
    when = next((about[key] for key in ("ETag", "LastModified", "modificationTime", "mtime") if about.get(key)), "")
    return f"{about.get('size')} {when}"
