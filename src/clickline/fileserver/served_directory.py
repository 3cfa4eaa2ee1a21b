"""A directory seen from outside: which of its files may be read, and what a listing shows. No path leaves it.

Names that start with a dot are not served: half-written uploads and versions have such names. A symbolic
link counts as what it leads to, so one that leads outside is not there. Everything here may block and runs in threads.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from clickline.errors import DataError

_LONGEST_NAME = 255


class NotServed(Exception):
    """There is nothing to see under that path, or nothing that may be seen: both look the same from outside."""


@dataclass(frozen=True, slots=True)
class DirectoryEntry:
    """One line of a listing."""

    name: str
    is_directory: bool
    size: int
    modified: float


@dataclass(slots=True)
class OpenFile:
    """A file that is open, and its facts as of then: a rename over its path changes neither."""

    path: Path
    descriptor: int
    size: int
    modified_ns: int
    inode: int

    @property
    def etag(self) -> str:
        """Strong: files are replaced by rename, so another content has another inode or time."""
        return f'"{self.size:x}-{self.modified_ns:x}-{self.inode:x}"'

    def read(self, offset: int, size: int) -> bytes:
        return os.pread(self.descriptor, size, offset)

    def close(self) -> None:
        os.close(self.descriptor)


class ServedDirectory:
    """The directory that is served."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.path = Path(directory).expanduser().resolve()
        if not self.path.is_dir():
            raise DataError(f"there is no directory '{directory}' to serve files from")

    def parts(self, path: str) -> list[str]:
        """A path of a URL, decoded, as names; none for the root itself."""
        parts = path.removesuffix("/").split("/") if path not in ("", "/") else []
        for part in parts:
            # The dot also excludes `.` and `..`.
            if not part or part.startswith(".") or len(part.encode("utf-8", "replace")) > _LONGEST_NAME:
                raise NotServed
            if any(character < " " or character == "\x7f" for character in part) or not _is_text(part):
                raise NotServed
        return parts

    def locate(self, path: str) -> Path:
        """The resolved path of a file or directory, which is below the root. Raises NotServed."""
        # Links are followed first and compared with the root afterwards: a link out of it is not served.
        try:
            resolved = self.path.joinpath(*self.parts(path)).resolve(strict=True)
        except (OSError, RuntimeError, ValueError):  # not there, not allowed, links in a circle
            raise NotServed from None
        if not resolved.is_relative_to(self.path):
            raise NotServed
        return resolved

    def open(self, path: str) -> OpenFile | None:
        """The file, or None if it is a directory."""
        place = self.locate(path)
        # Without O_NONBLOCK, a named pipe would wait for a writer. The resolved path must still not be a link.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            if place.is_dir():
                return None
            descriptor = os.open(place, flags)
        except OSError:
            raise NotServed from None
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or path.endswith("/"):
            os.close(descriptor)
            raise NotServed
        return OpenFile(place, descriptor, status.st_size, status.st_mtime_ns, status.st_ino)

    def entries(self, path: str) -> list[DirectoryEntry]:
        """What a directory holds: directories first, each by name."""
        place = self.locate(path)
        try:
            with os.scandir(place) as items:
                found = [entry for item in items for entry in self._entry(item)]
        except OSError:
            raise NotServed from None
        return sorted(found, key=lambda entry: (not entry.is_directory, entry.name))

    def _entry(self, item: os.DirEntry[str]) -> Iterator[DirectoryEntry]:
        if item.name.startswith(".") or not _is_text(item.name):
            return
        try:
            if item.is_symlink() and not Path(item.path).resolve(strict=True).is_relative_to(self.path):
                return
            status = item.stat()
        except (OSError, RuntimeError):  # gone since, or a link to nowhere
            return
        if stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode):
            is_directory = stat.S_ISDIR(status.st_mode)
            yield DirectoryEntry(item.name, is_directory, 0 if is_directory else status.st_size, status.st_mtime)


def _is_text(name: str) -> bool:
    """Whether a URL can carry the name: bytes that are not UTF-8 cannot be requested."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return "\ufffd" not in name
