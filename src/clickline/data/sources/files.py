"""Finding and opening files: plain paths, globs, directories, and any URL that fsspec knows.

The order is that of the job; within a glob or a directory it is sorted by path, so that two runs read the same rows in
the same order. Names that start with a dot or an underscore are left out of globs and directories: they are the
markers and half-written files of other tools.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, cast

from clickline.config.secrets.secret_references import resolve
from clickline.errors import DataError
from clickline.files.storage import Storage, is_url, open_storage


@dataclass(frozen=True, slots=True)
class File:
    """A file to read. Two are equal when they have the same path."""

    path: str
    """As a user would write it."""
    storage: Storage = field(compare=False, repr=False)
    name: str = field(compare=False, repr=False)
    """As its file system calls it."""

    @property
    def size(self) -> int | None:
        """Bytes, if its file system knows."""
        with self.storage.explained(self.path):
            size = self.storage.system.size(self.name)
        return None if size is None else int(size)

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """The raw bytes. Trouble in opening or reading, inside the `with` too, becomes a DataError naming the path."""
        with self.storage.explained(self.path), self.storage.system.open(self.name, "rb") as stream:
            yield cast(BinaryIO, stream)


def find(paths: Iterable[str], *, options: Mapping[str, str]) -> list[File]:
    """Every file that `paths` name, in order. A path that names nothing is an error, never an empty result."""
    return [file for path in paths for file in _matches(path, options)]


def _matches(path: str, options: Mapping[str, str]) -> list[File]:
    storage, name = open_storage(path, options, resolve=resolve, error=DataError)
    system = storage.system
    with storage.explained(path):
        # A file may well be called a[1].txt: what exists under the very name goes before what it would match.
        if system.exists(name):
            names = _leaves(system, name)
            if not names:
                raise DataError(f"no files in the directory '{path}' (hidden ones do not count)")
        # In a web address ? begins the query and [ an IPv6 host, so only * makes a pattern there.
        elif re.search(r"\*" if _is_web(path) else r"[*?\[]", path):
            found = [match for match in sorted(system.glob(name)) if not _hidden(match, below=name)]
            # A directory that matches means all that is in it; the dict drops what `**` has found twice.
            names = list(dict.fromkeys(leaf for match in found for leaf in _leaves(system, match)))
            if not names:
                _check_reachable(system, path, re.split(r"[*?\[]", name)[0].rpartition("/")[0])
                raise DataError(f"no file matches '{path}': check the pattern and the directory it starts from")
        else:
            _check_reachable(system, path, name)
            raise DataError(f"no such file or directory: '{path}'{'' if is_url(path) else _nearby(name)}")
    shown = system.unstrip_protocol if is_url(path) else str
    return [File(path=shown(leaf), storage=storage, name=leaf) for leaf in names]


def _check_reachable(system: Any, path: str, name: str) -> None:
    """Raise if a remote storage cannot be reached: fsspec reports a file there as missing."""
    if is_url(path) and not _is_web(path):
        with suppress(FileNotFoundError):
            system.info(name)


def _is_web(path: str) -> bool:
    return path.startswith(("http://", "https://"))


def _leaves(system: Any, name: str) -> list[str]:
    """The file itself, or all files below if it is a directory."""
    # Asking the web whether this is a directory would download it: there, only a slash at the end makes one.
    if not (name.endswith("/") if _is_web(name) else system.isdir(name)):
        return [name]
    return [leaf for leaf in sorted(system.find(name)) if not _hidden(leaf, below=name)]


def _hidden(path: str, *, below: str) -> bool:
    """Whether a part of `path` that the user did not write out is hidden."""
    parts, given = path.strip("/").split("/"), below.strip("/").split("/")
    written = 0
    while written < min(len(parts), len(given)) and parts[written] == given[written]:
        written += 1
    # A pattern whose part begins with the same character, such as `_tmp*`, asks for hidden names.
    return any(
        part.startswith((".", "_")) and not (place < len(given) and given[place].startswith(part[0]))
        for place, part in enumerate(parts[written:], written)
    )


def _nearby(path: str) -> str:
    """The names in the file's directory, for the message about a missing file."""
    parent = Path(path).parent
    if not parent.is_dir():
        return f"; its directory '{parent}' does not exist either"
    there = sorted(item.name for item in parent.iterdir() if not item.name.startswith("."))
    shown = ", ".join(there[:8]) + (", …" if len(there) > 8 else "")
    return f"; '{parent}' has: {shown}" if there else f"; '{parent}' is empty"
