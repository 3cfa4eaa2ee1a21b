"""The builder: a version's row files become one tar for each shard.

    OUT/<base>_<version>/<name>_part<i>.tar, .tar.md5, build.json

A build is made in a staging directory and appears by one rename, with build.json inside it: what is there is complete,
and a builder that dies or fails leaves nothing that could be taken for a build. Every input is compared with its
SHA-256 and verified before a row of it is used. Cutting is native and releases the interpreter, so threads use all
cores.
"""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from clickline import _native
from clickline.cube.builder.build_record import BUILD, Build, BuildListener, BuildRecord, BuiltFile, find_build
from clickline.cube.shard_files import (
    ShardHeader,
    TableRows,
    build_name,
    owned_buckets,
    part_name,
    write_tar,
)
from clickline.errors import VersionError
from clickline.files.atomic import sync_directory, write_synced
from clickline.files.digests import file_sha256
from clickline.files.failpoints import reach
from clickline.files.json_state import write_state
from clickline.files.leftovers import remove_leftover
from clickline.files.locks import locked

log = logging.getLogger("clickline.cube")
_BUILDING = ".building-"
_LOCK = ".lock"
"""Builders of one directory go one after the other; the kernel releases the lock of a dead one."""


@dataclass(frozen=True)
class RowFile:
    """A dictionary file of a version, and what it must be."""

    path: Path
    bytes: int
    sha256: str


@dataclass(frozen=True)
class VersionInput:
    """A version's row files, as the builder needs them."""

    version: int
    parent: int | None
    base: int
    digest: str
    """Digest of the input: a build of another digest is not a build of this version."""
    tables: dict[str, list[RowFile]]

    @property
    def kind(self) -> str:
        return "base" if self.parent is None else "delta"


@dataclass(frozen=True)
class _CutTable:
    """One table's rows of one shard, in a dictionary of their own."""

    path: Path
    rows: TableRows


def build(
    rows: VersionInput,
    *,
    out: Path,
    name: str,
    shards: int,
    threads: int = 0,
    again: bool = False,
    listener: BuildListener | None = None,
) -> Build:
    """Make the build, unless it is there. Raises VersionError, and leaves nothing, if the input is not sound.

    With `again` it is made anew and replaces the one that is there.
    """
    final = out / build_name(rows.base, rows.version)
    out.mkdir(parents=True, exist_ok=True)
    # Held to the end: `clickline build` and transfer may work on the same directory.
    with locked(out / _LOCK):
        remove_unfinished(out)
        found = find_build(out, rows.base, rows.version)
        if found is not None and not again and _is_of(found, rows, name=name, shards=shards):
            return found
        staging = out / f"{_BUILDING}{final.name}"
        staging.mkdir()
        try:
            record = _make(rows, staging, name=name, shards=shards, threads=threads or len(os.sched_getaffinity(0)))
            # Before the rename: whatever is kept beside a build is there as soon as the build is.
            if listener is not None:
                listener.written(out, record)
            reach("builder.before-rename")
            if final.exists():  # a build of another input or number of shards, or a damaged one
                shutil.rmtree(final)
            # Its files were synced by their writers: no crash leaves a build that has its name but not its bytes.
            staging.rename(final)
            sync_directory(out)
        except (RuntimeError, OSError) as error:  # mostly a full disk: faults of the input are VersionErrors
            raise VersionError(f"{final}: cannot be built: {error}") from error
        finally:
            shutil.rmtree(staging, ignore_errors=True)
        reach("builder.built")
    return Build(final, record)


def remove_unfinished(out: Path) -> None:
    """Remove what dead builders left. Only for the holder of the lock: nobody else builds there then."""
    for path in out.glob(f"{_BUILDING}*"):
        reach("builder.cleaning")
        remove_leftover(path)


def _is_of(found: Build, rows: VersionInput, *, name: str, shards: int) -> bool:
    record = found.record
    return (record.digest, record.name, record.shards) == (rows.digest, name, shards)


def _make(rows: VersionInput, staging: Path, *, name: str, shards: int, threads: int) -> BuildRecord:
    began = time.perf_counter()
    with ThreadPoolExecutor(threads, thread_name_prefix="clickline-build") as pool:
        opened = {
            table: list(pool.map(_open, files, [rows.kind == "base"] * len(files)))
            for table, files in rows.tables.items()
        }
        reach("builder.checked")
        # One job for each table and shard: they differ in size, and small ones fill the gaps.
        jobs = [(table, shard) for shard in range(shards) for table in opened]
        tables = pool.map(lambda job: _cut(opened[job[0]], rows, staging, job[0], job[1], shards), jobs)
        cut = dict(zip(jobs, tables, strict=True))
        reach("builder.cut")
        parts = list(pool.map(lambda shard: _pack(rows, staging, name, shard, shards, cut), range(shards)))
        reach("builder.packed")
    record = BuildRecord(
        name=name,
        version=rows.version,
        parent=rows.parent,
        base=rows.base,
        kind=rows.kind,
        shards=shards,
        digest=rows.digest,
        files=dict(zip((part_name(name, shard) for shard in range(shards)), parts, strict=True)),
        seconds=round(time.perf_counter() - began, 4),
        time=time.time(),
    )
    write_state(staging / BUILD, msgspec.to_builtins(record))
    return record


def _open(file: RowFile, complete: bool) -> _native.Dictionary:
    """Open a row file after every byte of it was verified."""
    try:
        size = file.path.stat().st_size
        if size != file.bytes:
            raise VersionError(f"{file.path}: {size} bytes, the manifest says {file.bytes}")
        seen = file_sha256(file.path)
    except OSError as error:
        raise VersionError(f"{file.path}: cannot be read: {error.strerror}") from None
    if seen != file.sha256:
        raise VersionError(f"{file.path}: damaged: its SHA-256 is {seen[:12]}…, the manifest says {file.sha256[:12]}…")
    try:
        # The SHA-256 proves that it is the published file; `verify`, that the file was sound when it was published.
        found = _native.Dictionary(str(file.path))
        found.verify()
    except RuntimeError as error:
        raise VersionError(str(error)) from None
    if complete and found.deleted:
        raise VersionError(f"{file.path}: deletes {found.deleted} keys, but is of a base, which has nothing to delete")
    return found


def _cut(
    layers: Sequence[_native.Dictionary], rows: VersionInput, staging: Path, table: str, shard: int, shards: int
) -> _CutTable:
    """Write a shard's keys of one table to a dictionary of their own."""
    path = staging / f"part{shard}.{table}.dict"
    first, last = owned_buckets(shard, shards)
    # The deletions of a delta must stay: on the server they hide rows of the layers below.
    merged = _native.merge_dictionaries(
        str(path), list(layers), first_bucket=first, last_bucket=last, keep_deleted=rows.kind == "delta"
    )
    return _CutTable(
        path,
        TableRows(
            dim=layers[0].dim,
            dtype=layers[0].dtype,
            row_bytes=layers[0].row_bytes,
            count=merged["count"],
            deleted=merged["deleted"],
        ),
    )


def _pack(
    rows: VersionInput, staging: Path, name: str, shard: int, shards: int, cut: dict[tuple[str, int], _CutTable]
) -> BuiltFile:
    """Write a shard's tar, and remove the dictionaries that it is made of."""
    mine = {table: one for (table, owner), one in cut.items() if owner == shard}
    tables = {table: one.rows for table, one in mine.items()}
    header = ShardHeader(
        name=name,
        version=rows.version,
        parent=rows.parent,
        base=rows.base,
        kind=rows.kind,
        shard=shard,
        shards=shards,
        tables=tables,
    )
    tar = staging / part_name(name, shard)
    made = write_tar(tar, header, {table: one.path for table, one in mine.items()})
    # Agents that get no SHA-256 with their command read the MD5 beside the file.
    write_synced(staging / f"{tar.name}.md5", f"{made.md5}  {tar.name}\n".encode())
    # At once, not at the end: otherwise the disk would need room for all rows twice.
    for one in mine.values():
        one.path.unlink()
    total = sum(table.count for table in tables.values())
    return BuiltFile(made.bytes, made.sha256, made.md5, total, tables)


def clean(out: Path) -> None:
    """Remove what dead builders left, unless another one is building there, which does so itself."""
    if out.is_dir():
        with suppress(BlockingIOError), locked(out / _LOCK, wait=False):
            remove_unfinished(out)
