"""What lies on a cube server's disk: versions, and which of them lack nothing.

Nothing is read from a directory that is still being written: those begin with a dot and get their name by a rename.
"""

from __future__ import annotations

from pathlib import Path

from clickline.cube.shardfiles import FACTS, Shard, read_shard
from clickline.errors import VersionError

COMPACT = "compact_"


class Disk:
    """A server's `data` directory."""

    def __init__(self, path: Path, *, name: str, shard: int, shards: int) -> None:
        self.path, self.name, self.shard, self.shards = path, name, shard, shards
        self._looked_into: dict[tuple[Path, int, int], Shard] = {}
        path.mkdir(parents=True, exist_ok=True)

    def versions(self) -> dict[int, Path]:
        """Where each version lies; a merged chain rather than its delta."""
        found: dict[int, Path] = {}
        for path in sorted(self.path.iterdir(), key=lambda path: path.name.startswith(COMPACT)):
            if (version := version_of(path)) is not None and path.is_dir():
                found[version] = path
        return found

    def chain(self, version: int) -> list[Shard]:
        """What makes up a version: something complete, then deltas in order. A gap is an error that names it."""
        places = self.versions()
        found: list[Shard] = []
        wanted: int | None = version
        while wanted is not None:
            if wanted not in places:
                needs = f", which version {found[0].version} is a delta on" if found else ""
                raise VersionError(f"{self.path}: version {wanted} is not there{needs}")
            found.insert(0, self._read(places[wanted], wanted))
            wanted = found[0].parent
        return found

    def complete(self) -> list[int]:
        """Versions on disk that lack nothing."""
        found = []
        for version in self.versions():
            try:
                self.chain(version)
            except VersionError:
                continue
            found.append(version)
        return sorted(found)

    def _read(self, path: Path, version: int) -> Shard:
        inner = path if path.name.startswith(COMPACT) else path / f"{self.name}_part{self.shard}.tar"
        try:
            file = (inner / FACTS if inner.is_dir() else inner).stat()
        except OSError:
            raise VersionError(f"{inner}: not there") from None
        known = (inner, file.st_ino, file.st_mtime_ns)
        if known in self._looked_into:
            return self._looked_into[known]
        found = read_shard(inner)
        expected = {"name": self.name, "shard": self.shard, "shards": self.shards, "version": version}
        for key, value in expected.items():
            if found.facts[key] != value:
                raise VersionError(f"{inner}: {key} {found.facts[key]!r}, this server needs {value!r}")
        self._looked_into = {**{one: each for one, each in self._looked_into.items() if one[0] != inner}, known: found}
        return found


def version_of(path: Path) -> int | None:
    """That a directory is of; None if it is of none, or not finished."""
    text = path.name.removeprefix(COMPACT).rpartition("_")[2]
    return int(text) if text.isascii() and text.isdigit() and not path.name.startswith(".") else None
