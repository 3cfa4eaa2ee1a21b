"""A build on disk: one tar for each shard, and build.json, which lists them."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Protocol

from msgspec import Meta, Struct

from clickline.cube.shard_files import FORMAT, Count, TableRows, build_name, part_name
from clickline.files.digests import file_sha256
from clickline.files.typed_json import decode_json

BUILD = "build.json"


class BuiltFile(Struct, frozen=True):
    """A shard's tar, as build.json lists it."""

    bytes: Count
    sha256: str
    md5: str = ""
    rows: Count = 0
    tables: dict[str, TableRows] = {}


class BuildRecord(Struct, frozen=True, kw_only=True):
    """The contents of build.json."""

    format: int = FORMAT
    name: str
    version: int = 0
    parent: int | None = None
    base: int = 0
    kind: str = ""
    shards: Annotated[int, Meta(ge=1, le=4096)]
    digest: str
    """Digest of the input: a build of another digest is not a build of this version."""
    files: dict[str, BuiltFile]
    seconds: float = 0.0
    time: Annotated[float, Meta(gt=-1e12, lt=1e12)]


@dataclass(frozen=True)
class Build:
    """A complete build."""

    path: Path
    record: BuildRecord

    def source(self, shard: int) -> str:
        """Path of a shard's file below the directory of builds."""
        return f"{self.path.name}/{part_name(self.record.name, shard)}"

    def file(self, shard: int) -> BuiltFile:
        return self.record.files[part_name(self.record.name, shard)]


class BuildListener(Protocol):
    """Keeps what other programs want to know about builds beside them."""

    def written(self, out: Path, record: BuildRecord) -> None:
        """Called before a build appears."""

    def removed(self, out: Path, base: int, version: int) -> None:
        """Called after a build was removed."""


def find_build(out: Path, base: int, version: int) -> Build | None:
    """A complete build, if there is one."""
    path = out / build_name(base, version)
    try:
        record = decode_json((path / BUILD).read_bytes(), BuildRecord)
        parts = [part_name(record.name, shard) for shard in range(record.shards)]
        # Sizes only, since this is called often; `is_sound` reads every byte.
        complete = all((path / part).stat().st_size == record.files[part].bytes for part in parts)
    except (OSError, ValueError, KeyError, RecursionError):
        return None  # damaged: it is made again
    return Build(path, record) if complete and len(record.files) == record.shards else None


def is_sound(found: Build) -> bool:
    """Whether every byte of a build's tars is as it was when they were written."""
    try:
        return all(
            file_sha256(found.path / part_name(found.record.name, shard)) == found.file(shard).sha256
            for shard in range(found.record.shards)
        )
    except OSError:
        return False


def remove_build(out: Path, path: Path, *, listener: BuildListener | None = None) -> None:
    base, _, version = path.name.partition("_")
    shutil.rmtree(path, ignore_errors=True)
    if listener is not None:
        listener.removed(out, int(base), int(version))
