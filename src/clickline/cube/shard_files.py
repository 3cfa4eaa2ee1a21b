"""What a shard gets of a version: a plain tar with `shard.json` and one dictionary for each table.

Nothing is unpacked: servers map the dictionaries where they lie in the tar, whose members begin at multiples of 512
bytes. Compaction writes the same as a directory, without the tar. Beware: a tar comes over the network. Only plain
files with the names that shard.json lists are read, and offsets are checked against the size of the file.
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
from typing import IO, Annotated

import msgspec
from msgspec import Meta, Struct

from clickline import _native
from clickline.errors import VersionError
from clickline.files.digests import is_as_sealed, sealed_json
from clickline.files.typed_json import convert_json

FORMAT = 1
HEADER = "shard.json"
_HEADER_LIMIT = 1 << 20
_MEMBERS = 4096
_BLOCK = 1 << 20
_TABLE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")
Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class TableRows(Struct, frozen=True):
    """One table's part of a shard."""

    dim: Count = 0
    dtype: Count = 0
    row_bytes: Count = 0
    count: Count = 0
    deleted: Count = 0


class ShardHeader(Struct, frozen=True, kw_only=True):
    """The contents of shard.json."""

    format: int = FORMAT
    name: str
    version: Count
    parent: int | None = None
    """The version that it is a delta on; None: it is complete."""
    base: Count
    kind: str
    shard: Count
    shards: Count
    tables: dict[str, TableRows]

    def encoded(self) -> bytes:
        return sealed_json(dict(sorted(msgspec.to_builtins(self).items())))


class WrittenFile(Struct, frozen=True):
    """Size and hashes of a file."""

    bytes: Count
    sha256: str
    md5: str = ""


@dataclass(frozen=True)
class FileSpan:
    """A dictionary, alone or inside another file."""

    path: Path
    offset: int
    length: int

    def open(self, *, memory: bool = False) -> _native.Dictionary:
        return _native.Dictionary(str(self.path), offset=self.offset, length=self.length, memory=memory)


@dataclass(frozen=True)
class ShardFile:
    """One shard's part of one version, as it lies on disk."""

    path: Path
    header: ShardHeader
    tables: dict[str, FileSpan]

    @property
    def version(self) -> int:
        return self.header.version

    @property
    def parent(self) -> int | None:
        return self.header.parent


def owned_buckets(shard: int, shards: int) -> tuple[int, int]:
    """A shard's buckets, [first, last)."""
    return _native.owner_ranges(shards)[shard]


def part_name(name: str, shard: int) -> str:
    return f"{name}_part{shard}.tar"


def build_name(base: int, version: int) -> str:
    """Name of a version's directory among the builds."""
    return f"{base}_{version}"


def deployed_name(base: int, version: int) -> str:
    """Name of a version's directory on a server, as Cube lays them out."""
    return str(version) if base == version else f"{base}_{version}"


def write_tar(path: Path, header: ShardHeader, tables: dict[str, Path]) -> WrittenFile:
    """Pack dictionaries. The same input makes the same bytes."""
    text = header.encoded()
    with path.open("wb") as file:
        sink = _Hashing(file)
        sink.member(HEADER, len(text), io.BytesIO(text))
        for name, source in tables.items():
            with source.open("rb") as content:
                sink.member(f"{name}.dict", source.stat().st_size, content)
        # Two blocks of zeros end an archive.
        sink.write(bytes(2 * tarfile.BLOCKSIZE))
        file.flush()
        os.fsync(file.fileno())
    return WrittenFile(sink.size, sink.sha256.hexdigest(), sink.md5.hexdigest())


def read_shard(path: Path) -> ShardFile:
    """Look into a shard's tar or directory; refuses what does not fit together."""
    try:
        return _read_directory(path) if path.is_dir() else _read_tar(path)
    except (OSError, tarfile.TarError, ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise VersionError(f"{path}: not a shard's file: {type(error).__name__}: {error}") from None


def _read_directory(path: Path) -> ShardFile:
    if (path / HEADER).stat().st_size > _HEADER_LIMIT:
        raise ValueError(f"{HEADER} is too large")
    header = _parse_header((path / HEADER).read_bytes())
    tables = {}
    for name in header.tables:
        file = path / f"{name}.dict"
        tables[name] = FileSpan(file, 0, file.stat().st_size)
    return ShardFile(path, header, tables)


def _read_tar(path: Path) -> ShardFile:
    size = path.stat().st_size
    spans: dict[str, FileSpan] = {}
    header: ShardHeader | None = None
    # "r:" is an uncompressed tar only: a compressed one could be small and expand without bound.
    with tarfile.open(path, mode="r:", tarinfo=_PlainFile) as tar:
        for count, member in enumerate(tar):
            # Sizes are not trusted: the agent finds a wrong one when it checks the download, before a server maps it.
            if count >= _MEMBERS or not 0 <= member.size <= size - member.offset_data:
                raise ValueError(f"member {member.name!r:.80} is not a plain file inside it")
            if member.name == HEADER:
                content = tar.extractfile(member)
                if content is None or member.size > _HEADER_LIMIT:
                    raise ValueError(f"{HEADER} is too large")
                header = _parse_header(content.read())
            else:
                spans[member.name] = FileSpan(path, member.offset_data, member.size)
    if header is None:
        raise ValueError(f"{HEADER} is missing")
    missing = [name for name in header.tables if f"{name}.dict" not in spans]
    if missing:
        raise ValueError(f"table {missing[0]!r} has no dictionary in it")
    return ShardFile(path, header, {name: spans[f"{name}.dict"] for name in header.tables})


def _parse_header(content: bytes) -> ShardHeader:
    values = json.loads(content)
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise ValueError(f"{HEADER} is not of format {FORMAT}")
    # A flipped bit in `parent` could name another existing version, and a delta would be left out without an error.
    if not is_as_sealed(content, values):
        raise ValueError(f"{HEADER} is damaged: its check {values['check']!r:.40} does not fit the rest")
    try:
        header = convert_json(values, ShardHeader)
    except msgspec.ValidationError as error:
        raise ValueError(f"{HEADER}: {error}") from None
    for name in header.tables:  # they become names of files
        if not _TABLE.fullmatch(name):
            raise ValueError(f"{HEADER}: {name!r:.80} is not a name of a table")
    if (header.kind == "base") != (header.parent is None):
        raise ValueError(f"{HEADER}: kind {header.kind!r} with parent {header.parent!r}")
    # Parents strictly decrease, so the lookup of a chain always ends, whatever the files on the disk say.
    if header.parent is not None and not 0 < header.parent < header.version:
        raise ValueError(f"{HEADER}: version {header.version} is a delta on {header.parent!r:.80}")
    return header


class _PlainFile(tarfile.TarInfo):
    """A tar member that is refused, unless it is a plain file, before anything of its alleged size is read."""

    def _proc_member(self, tar: tarfile.TarFile) -> tarfile.TarInfo:
        # What tarfile means to be overridden. `frombuf` is not called any more.
        # A table's name may have 200 characters; beyond 100 GNU tar puts it into a member of its own, of one block.
        long_name = self.type == tarfile.GNUTYPE_LONGNAME and 0 <= self.size <= tarfile.BLOCKSIZE
        if self.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) and not long_name:
            raise ValueError(f"member {self.name!r:.80} is not a plain file")
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
        # TarInfo's default owner and time are zero, which makes the bytes of a tar depend on its content only.
        info = tarfile.TarInfo(name)
        info.size, info.mode = size, 0o644
        self.write(info.tobuf(tarfile.GNU_FORMAT))
        while block := content.read(_BLOCK):
            self.write(block)
        self.write(bytes(-size % tarfile.BLOCKSIZE))
