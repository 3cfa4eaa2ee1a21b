"""What a shard gets of a version: a plain tar with `shard.json` and one dictionary for each table.

Nothing is unpacked: servers map the dictionaries where they lie in the tar, whose members begin at multiples of 512
bytes. Compaction makes the same as a directory, without the tar. Beware: a tar comes over the network. Only plain files
with the names that shard.json tells are looked at, and spans are checked against the size of the file.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from clickline import _native
from clickline.errors import VersionError
from clickline.files.digests import is_as_sealed, sealed_json

FORMAT = 1
FACTS = "shard.json"
_FACTS_LIMIT = 1 << 20
_MEMBERS = 4096
_BLOCK = 1 << 20
_HIGHEST = 1 << 63
_TABLE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")
_FILE_KEYS = {"version": int, "base": int, "shard": int, "shards": int, "name": str, "kind": str, "tables": dict}


@dataclass(frozen=True)
class FileSpan:
    """A dictionary, alone or inside another file."""

    path: Path
    offset: int
    length: int

    def open(self, *, memory: bool = False) -> _native.Dictionary:
        return _native.Dictionary(str(self.path), offset=self.offset, length=self.length, memory=memory)


@dataclass(frozen=True)
class Shard:
    """One shard's part of one version, as it lies on disk."""

    path: Path
    facts: dict[str, Any]
    tables: dict[str, FileSpan]

    @property
    def version(self) -> int:
        return int(self.facts["version"])

    @property
    def parent(self) -> int | None:
        """What it is a delta on; None: it is complete."""
        parent = self.facts.get("parent")
        return None if parent is None else int(parent)


def owned_buckets(shard: int, shards: int) -> tuple[int, int]:
    """A shard's buckets, [first, last)."""
    return _native.owner_ranges(shards)[shard]


def part_name(name: str, shard: int) -> str:
    return f"{name}_part{shard}.tar"


def build_name(base: int, version: int) -> str:
    """Of a version's directory among the builds."""
    return f"{base}_{version}"


def deployed_name(base: int, version: int) -> str:
    """Of a version's directory on a server: the older layout."""
    return str(version) if base == version else f"{base}_{version}"


def write_tar(path: Path, facts: dict[str, Any], tables: dict[str, Path]) -> dict[str, Any]:
    """Pack dictionaries; gives back bytes, sha256 and md5 of the tar. The same input makes the same bytes."""
    text = sealed_json(dict(sorted(facts.items())))
    with path.open("wb") as file:
        sink = _Hashing(file)
        sink.member(FACTS, len(text), io.BytesIO(text))
        for name, source in tables.items():
            with source.open("rb") as content:
                sink.member(f"{name}.dict", source.stat().st_size, content)
        sink.write(bytes(2 * tarfile.BLOCKSIZE))
        file.flush()
        os.fsync(file.fileno())
    return {"bytes": sink.size, "sha256": sink.sha256.hexdigest(), "md5": sink.md5.hexdigest()}


def read_shard(path: Path) -> Shard:
    """Look into a shard's tar or directory; refuses what does not fit together."""
    try:
        return _read_directory(path) if path.is_dir() else _read_tar(path)
    except (OSError, tarfile.TarError, ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise VersionError(f"{path}: not a shard's file: {type(error).__name__}: {error}") from None


def _read_directory(path: Path) -> Shard:
    if (path / FACTS).stat().st_size > _FACTS_LIMIT:
        raise ValueError(f"{FACTS} is too large")
    facts = _checked((path / FACTS).read_bytes())
    tables = {}
    for name in facts["tables"]:
        file = path / f"{name}.dict"
        tables[name] = FileSpan(file, 0, file.stat().st_size)
    return Shard(path, facts, tables)


def _read_tar(path: Path) -> Shard:
    size = path.stat().st_size
    spans: dict[str, FileSpan] = {}
    facts: dict[str, Any] | None = None
    with tarfile.open(path, mode="r:", tarinfo=_PlainFile) as tar:
        for count, member in enumerate(tar):
            if count >= _MEMBERS or not 0 <= member.size <= size - member.offset_data:
                raise ValueError(f"member {member.name!r:.80} is no plain file inside it")
            if member.name == FACTS:
                content = tar.extractfile(member)
                if content is None or member.size > _FACTS_LIMIT:
                    raise ValueError(f"{FACTS} is too large")
                facts = _checked(content.read())
            else:
                spans[member.name] = FileSpan(path, member.offset_data, member.size)
    if facts is None:
        raise ValueError(f"{FACTS} is missing")
    missing = [name for name in facts["tables"] if f"{name}.dict" not in spans]
    if missing:
        raise ValueError(f"table {missing[0]!r} has no dictionary in it")
    return Shard(path, facts, {name: spans[f"{name}.dict"] for name in facts["tables"]})


def _checked(content: bytes) -> dict[str, Any]:
    facts = json.loads(content)
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        raise ValueError(f"{FACTS} is not of format {FORMAT}")
    if not is_as_sealed(content, facts):
        raise ValueError(f"{FACTS} is damaged: its check {facts['check']!r:.40} does not fit the rest")
    for key, kind in _FILE_KEYS.items():
        if not isinstance(facts.get(key), kind) or isinstance(facts[key], bool):
            raise ValueError(f"{FACTS}: {key} must be of type {kind.__name__}, not {facts.get(key)!r:.80}")
        if kind is int and not 0 <= facts[key] < _HIGHEST:
            raise ValueError(f"{FACTS}: {key} {facts[key]!r:.40} is out of range")
    for name in facts["tables"]:  # they become names of files
        if not _TABLE.fullmatch(name):
            raise ValueError(f"{FACTS}: {name!r:.80} is no name of a table")
    if (facts["kind"] == "base") != (facts.get("parent") is None):
        raise ValueError(f"{FACTS}: kind {facts['kind']!r} with parent {facts.get('parent')!r}")
    parent = facts.get("parent")
    if parent is not None and (not isinstance(parent, int) or not 0 < parent < facts["version"]):
        raise ValueError(f"{FACTS}: version {facts['version']} is a delta on {parent!r:.80}")
    return facts


class _PlainFile(tarfile.TarInfo):
    """Refuses what is no plain file before anything of the size that it claims to have is read."""

    def _proc_member(self, tar: tarfile.TarFile) -> tarfile.TarInfo:
        # What tarfile means to be overridden. `frombuf` is not called any more.
        long_name = self.type == tarfile.GNUTYPE_LONGNAME and 0 <= self.size <= tarfile.BLOCKSIZE
        if self.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) and not long_name:
            raise ValueError(f"member {self.name!r:.80} is no plain file")
        found: tarfile.TarInfo = super()._proc_member(tar)  # type: ignore[misc]
        return found


class _Hashing:
    """A file that knows the hashes of what was written to it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.sha256, self.md5, self.size = hashlib.sha256(), hashlib.md5(usedforsecurity=False), 0

    def write(self, data: bytes) -> None:
        self.sha256.update(data)
        self.md5.update(data)
        self.size += len(data)
        self._file.write(data)

    def member(self, name: str, size: int, content: IO[bytes]) -> None:
        """A file of the tar. tarfile's own copying is several times slower, and holds up other threads."""
        info = tarfile.TarInfo(name)
        info.size, info.mode = size, 0o644
        self.write(info.tobuf(tarfile.GNU_FORMAT))
        while block := content.read(_BLOCK):
            self.write(block)
        self.write(bytes(-size % tarfile.BLOCKSIZE))
