"""The versions on a cube server's disk, and which of them are complete.

Nothing is read from a directory that is still being written: those begin with a dot and get their name by a rename.
"""

from __future__ import annotations

import logging
from collections.abc import Set
from pathlib import Path

from clickline.cube.shard_files import HEADER, ShardFile, read_shard
from clickline.errors import VersionError
from clickline.files.leftovers import abandoned, remove_leftover

COMPACT = "compact_"
DOWNLOADING = ".downloading-"
_Identity = tuple[Path, int, int]
"""Path, inode and time of a tar or a merged chain: another file in its place has another identity."""
log = logging.getLogger("clickline.cube")


class Disk:
    """A server's `data` directory."""

    def __init__(self, path: Path, *, name: str, shard: int, shards: int) -> None:
        self.path, self.name, self.shard, self.shards = path, name, shard, shards
        # Transfer polls the status every second, which lists all complete versions: each header is parsed only once.
        self._looked_into: dict[_Identity, ShardFile] = {}
        self._damaged: dict[_Identity, str] = {}
        """Files that were found damaged, and how."""
        self._told: set[str] = set()
        path.mkdir(parents=True, exist_ok=True)

    def versions(self) -> dict[int, list[Path]]:
        """The directories of each version; a merged chain comes before its delta."""
        directories: dict[int, list[Path]] = {}
        for path in sorted(self.path.iterdir(), key=lambda path: not path.name.startswith(COMPACT)):
            if (version := version_of(path)) is not None and path.is_dir():
                directories.setdefault(version, []).append(path)
        return directories

    def chain(self, version: int) -> list[ShardFile]:
        """The files that make up a version: a complete one, then deltas in order. A gap is an error that names it."""
        places = self.versions()
        chain: list[ShardFile] = []
        wanted: int | None = version
        # From the version down to the first file without a parent: a base, or a chain that was merged.
        while wanted is not None:
            if wanted not in places:
                needs = f", which version {chain[0].version} is a delta on" if chain else ""
                raise VersionError(f"{self.path}: version {wanted} is not there{needs}")
            chain.insert(0, self._read_best(places[wanted], wanted))
            wanted = chain[0].parent
        return chain

    def complete(self) -> list[int]:
        """Versions whose whole chain is on disk."""
        complete = []
        for version in self.versions():
            try:
                self.chain(version)
            except VersionError:
                continue
            complete.append(version)
        return sorted(complete)

    def distrust(self, shard: ShardFile, why: str) -> None:
        """Treat a file as damaged until it is replaced, or `trust_again`: its version is not complete."""
        self._damaged[_identity(shard.path)] = why

    def trust_again(self) -> None:
        """Read everything anew: a file that could not be read may have been repaired in place."""
        self._damaged.clear()

    def superfluous(self, *, kept: Set[int], loaded: Set[int], needed: Set[Path]) -> list[Path]:
        """Directories that no version of `kept` needs. `needed`: what the loaded ones of them were opened from."""
        # A directory of a newer version may be a finished download that is about to be loaded, so only those older
        # than every kept version are deleted for their age.
        oldest = min(kept, default=0)
        paths = []
        for path in self.path.iterdir():
            number = version_of(path)
            if number is None or path in needed:
                continue
            # A delta is superfluous only where a merged chain is read in its place, not where one merely exists.
            merged = self.path / f"{COMPACT}{number}" in needed
            unused = path.name.startswith(COMPACT) and number in loaded
            if number < oldest or (number in kept and (merged or unused)):
                paths.append(path)
        return paths

    def remove_leftovers(self, *, through: int) -> None:
        """Remove what dead processes left of merging and downloads; a download of a version after `through` is kept."""
        for path in abandoned(self.path.glob(f".{COMPACT}*")):
            remove_leftover(path)
        downloads = self.path.glob(f"{DOWNLOADING}*")
        for path in abandoned(path for path in downloads if downloaded_version(path) <= through):
            remove_leftover(path)

    def _read_best(self, places: list[Path], version: int) -> ShardFile:
        """Read a version from the first directory that is sound: a damaged merged chain does not hide its delta."""
        errors = []
        for path in places:
            try:
                return self._read(path, version)
            except VersionError as error:
                errors.append(str(error))
                if errors[-1] not in self._told:
                    self._told.add(errors[-1])
                    log.warning("%s", error)
        raise VersionError("; ".join(errors))

    def _read(self, path: Path, version: int) -> ShardFile:
        inner = path if path.name.startswith(COMPACT) else path / f"{self.name}_part{self.shard}.tar"
        try:
            known = _identity(inner)
        except OSError:
            raise VersionError(f"{inner}: not there") from None
        if known in self._damaged:
            raise VersionError(f"{inner}: damaged: {self._damaged[known]}")
        if known in self._looked_into:
            return self._looked_into[known]
        shard = read_shard(inner)
        expected = {"name": self.name, "shard": self.shard, "shards": self.shards, "version": version}
        for key, value in expected.items():
            actual = getattr(shard.header, key)
            if actual != value:
                raise VersionError(f"{inner}: {key} {actual!r}, this server needs {value!r}")
        # Replaced as a whole, since several threads read it without a lock; entries of a replaced file go.
        others = {identity: other for identity, other in self._looked_into.items() if identity[0] != inner}
        self._looked_into = {**others, known: shard}
        return shard


def _identity(inner: Path) -> _Identity:
    # Of a merged chain the header, which is written last and anew with every merge.
    file = (inner / HEADER if inner.is_dir() else inner).stat()
    return inner, file.st_ino, file.st_mtime_ns


def version_of(path: Path) -> int | None:
    """The version that a directory holds; None if it holds none, or is not finished."""
    text = path.name.removeprefix(COMPACT).rpartition("_")[2]
    return int(text) if text.isascii() and text.isdigit() and not path.name.startswith(".") else None


def downloaded_version(path: Path) -> int:
    """The version of an unfinished download; 0 if it is not one."""
    text = path.name.removeprefix(DOWNLOADING).rpartition("_")[2]
    return int(text) if text.isascii() and text.isdigit() else 0
