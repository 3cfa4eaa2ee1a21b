"""The builder: a version's row files become one tar for each shard.

    OUT/<base>_<version>/<name>_part<i>.tar, .tar.md5, build.json
    OUT/meta_info/<version>_<base>_<shard>_0.json        what the older builder told about its index and data

A build is made aside and appears by one rename, with build.json inside it: what is there is complete, and a builder
that dies or fails leaves nothing that could be taken for a build. Every input is compared with its SHA-256 and looked
through before a row of it is used. Cutting is native and releases the interpreter, so threads use all cores.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clickline import _native
from clickline.cube.shard_files import FORMAT, build_name, owned_buckets, part_name, write_tar
from clickline.errors import VersionError
from clickline.files.atomic import sync_directory, write_synced
from clickline.files.digests import file_sha256
from clickline.files.failpoints import reach
from clickline.files.json_state import write_state
from clickline.files.leftovers import remove_leftover
from clickline.files.locks import locked

log = logging.getLogger("clickline.cube")
BUILD = "build.json"
META = "meta_info"
_BUILDING = ".building-"
_BLOCK = 1 << 20


@dataclass(frozen=True)
class RowFile:
    """A dictionary file of a version, and what it must be."""

    path: Path
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Rows:
    """What the builder needs to know of a version."""

    version: int
    parent: int | None
    base: int
    digest: str
    """Of where it came from: a build of another digest is not a build of this."""
    tables: dict[str, list[RowFile]]

    @property
    def kind(self) -> str:
        return "base" if self.parent is None else "delta"


@dataclass(frozen=True)
class Build:
    """A complete build."""

    path: Path
    facts: dict[str, Any]

    def source(self, shard: int) -> str:
        """A shard's file, below the directory of builds."""
        return f"{self.path.name}/{part_name(self.facts['name'], shard)}"

    def file(self, shard: int) -> dict[str, Any]:
        found: dict[str, Any] = self.facts["files"][part_name(self.facts["name"], shard)]
        return found


def build(rows: Rows, *, out: Path, name: str, shards: int, threads: int = 0, again: bool = False) -> Build:
    """Make the build, unless it is there. Raises VersionError, and leaves nothing, if the input is not sound.

    With `again` it is made anew and takes the place of the one that is there.
    """
    final = out / build_name(rows.base, rows.version)
    out.mkdir(parents=True, exist_ok=True)
    with _alone(out):
        remove_unfinished(out)
        found = find_build(out, rows.base, rows.version)
        if found is not None and not again and _is_of(found, rows, name=name, shards=shards):
            return found
        aside = out / f"{_BUILDING}{final.name}"
        aside.mkdir()
        try:
            facts = _make(rows, aside, name=name, shards=shards, threads=threads or len(os.sched_getaffinity(0)))
            _write_meta(out, facts)
            reach("builder.before-rename")
            if final.exists():  # of another input or number of shards
                shutil.rmtree(final)
            aside.rename(final)
            sync_directory(out)
        except (RuntimeError, OSError) as error:  # a full disk, most of the time; faults of the input are VersionErrors
            raise VersionError(f"{final}: cannot be built: {error}") from error
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        reach("builder.built")
    return Build(final, facts)


def find_build(out: Path, base: int, version: int) -> Build | None:
    """A complete build, if there is one."""
    path = out / build_name(base, version)
    try:
        facts = json.loads((path / BUILD).read_bytes())
        found = Build(path, {**facts, "time": float(facts["time"])})
        for shard in range(len(facts["files"])):
            part = found.file(shard)
            if (path / part_name(facts["name"], shard)).stat().st_size != part["bytes"]:
                return None
            meta_of(part)
        whole = {"digest", "name", "shards"} <= facts.keys() and len(facts["files"]) == facts["shards"] > 0
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None  # of no use: it is made again
    return found if whole else None


def is_sound(found: Build) -> bool:
    """Whether every byte of a build's tars is as it was when they were written."""
    try:
        return all(
            file_sha256(found.path / part_name(found.facts["name"], shard)) == found.file(shard)["sha256"]
            for shard in range(found.facts["shards"])
        )
    except OSError:
        return False


def remove_build(out: Path, path: Path) -> None:
    """A build, and what the older builder would have told about it."""
    base, _, version = path.name.partition("_")
    shutil.rmtree(path, ignore_errors=True)
    for meta in (out / META).glob(f"{version}_{base}_*_0.json"):
        meta.unlink(missing_ok=True)


def remove_unfinished(out: Path) -> None:
    """What dead builders left. Only for whoever holds the lock: nobody else builds there then."""
    for path in out.glob(f"{_BUILDING}*"):
        reach("builder.cleaning")
        remove_leftover(path)


def _is_of(found: Build, rows: Rows, *, name: str, shards: int) -> bool:
    facts = found.facts
    return bool((facts["digest"], facts["name"], facts["shards"]) == (rows.digest, name, shards))


def _make(rows: Rows, aside: Path, *, name: str, shards: int, threads: int) -> dict[str, Any]:
    began = time.perf_counter()
    with ThreadPoolExecutor(threads, thread_name_prefix="clickline-build") as pool:
        opened = {
            table: list(pool.map(_open, files, [rows.kind == "base"] * len(files)))
            for table, files in rows.tables.items()
        }
        reach("builder.checked")
        jobs = [(table, shard) for shard in range(shards) for table in opened]
        cut = dict(
            zip(
                jobs, pool.map(lambda job: _cut(opened[job[0]], rows, aside, job[0], job[1], shards), jobs), strict=True
            )
        )
        reach("builder.cut")
        parts = list(pool.map(lambda shard: _pack(rows, aside, name, shard, shards, cut), range(shards)))
        reach("builder.packed")
    facts = {
        "format": FORMAT,
        "name": name,
        "version": rows.version,
        "parent": rows.parent,
        "base": rows.base,
        "kind": rows.kind,
        "shards": shards,
        "digest": rows.digest,
        "files": dict(zip((part_name(name, shard) for shard in range(shards)), parts, strict=True)),
        "seconds": round(time.perf_counter() - began, 4),
        "time": time.time(),
    }
    write_state(aside / BUILD, facts)
    return facts


def _open(file: RowFile, complete: bool) -> _native.Dictionary:
    """A row file, every byte looked at."""
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
        found = _native.Dictionary(str(file.path))
        found.verify()
    except RuntimeError as error:
        raise VersionError(str(error)) from None
    if complete and found.deleted:
        raise VersionError(f"{file.path}: deletes {found.deleted} keys, but is of a base, which has nothing to delete")
    return found


def _cut(
    layers: Sequence[_native.Dictionary], rows: Rows, aside: Path, table: str, shard: int, shards: int
) -> dict[str, Any]:
    """A shard's keys of one table."""
    path = aside / f"part{shard}.{table}.dict"
    first, last = owned_buckets(shard, shards)
    facts: dict[str, Any] = dict(
        _native.merge_dictionaries(
            str(path), list(layers), first_bucket=first, last_bucket=last, keep_deleted=rows.kind == "delta"
        )
    )
    return {**facts, "path": path, "dim": layers[0].dim, "dtype": layers[0].dtype, "row_bytes": layers[0].row_bytes}


def _pack(
    rows: Rows, aside: Path, name: str, shard: int, shards: int, cut: dict[tuple[str, int], dict[str, Any]]
) -> dict[str, Any]:
    mine = {table: facts for (table, of), facts in cut.items() if of == shard}
    tables = {
        table: {key: facts[key] for key in ("dim", "dtype", "row_bytes", "count", "deleted")}
        for table, facts in mine.items()
    }
    told = {
        "format": FORMAT,
        "name": name,
        "version": rows.version,
        "parent": rows.parent,
        "base": rows.base,
        "kind": rows.kind,
        "shard": shard,
        "shards": shards,
        "tables": tables,
    }
    tar = aside / part_name(name, shard)
    made = write_tar(tar, told, {table: facts["path"] for table, facts in mine.items()})
    write_synced(aside / f"{tar.name}.md5", f"{made['md5']}  {tar.name}\n".encode())
    for facts in mine.values():
        facts["path"].unlink()
    return {**made, "rows": sum(facts["count"] for facts in mine.values()), "tables": tables}


def _write_meta(out: Path, facts: dict[str, Any]) -> None:
    """What the older builder told: how large its index (16 bytes a key) and data (4 before each value) would be."""
    for shard, part in enumerate(facts["files"].values()):
        path = out / META / f"{facts['version']}_{facts['base']}_{shard}_0.json"
        write_state(path, meta_of(part))


def meta_of(part: dict[str, Any]) -> dict[str, Any]:
    tables = part["tables"].values()
    return {
        "index_total_count": str(sum(table["count"] for table in tables)),
        "data_len_list": [str((4 + table["row_bytes"]) * table["count"]) for table in tables],
        "index_len_list": [str(16 * table["count"]) for table in tables],
    }


def clean(out: Path) -> None:
    """Remove what dead builders left, unless somebody builds there just now, who will."""
    if out.is_dir():
        with suppress(BlockingIOError), _alone(out, wait=False):
            remove_unfinished(out)


@contextmanager
def _alone(out: Path, *, wait: bool = True) -> Iterator[None]:
    """Builders of one directory go one after the other; a dead one holds nothing."""
    with locked(out / ".lock", wait=wait):
        yield
