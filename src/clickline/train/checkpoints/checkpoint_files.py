"""Checkpoints: one directory each, complete or invisible.

A checkpoint is written into a hidden staging directory beside its place, every file synced and its SHA-256 put into the
manifest, and made visible by one rename. So a killed save leaves the one before usable, and a damaged file is found
before it is used. docs/reference/checkpoint.md is the specification, checkpoint_directories.py has the renames.

Where several processes hold the tables, each writes its own buckets into the same hidden directory: `begin`, then
`write_tables` in each, then `finish` in one. No PyTorch here: dense_tensors.py has dense state as tensors.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, deserialize

from clickline import _native
from clickline.errors import CheckpointError
from clickline.files.atomic import sync_directory, write_synced
from clickline.files.failpoints import reach
from clickline.train.checkpoints import checkpoint_directories
from clickline.train.checkpoints.checkpoint_digests import (
    DIGEST_OF_MANIFEST,
    FileDigest,
    damage,
    digest_of,
    digest_of_manifest,
    problem_of,
)
from clickline.train.checkpoints.checkpoint_directories import MANIFEST
from clickline.train.checkpoints.checkpoint_manifest import FORMAT, Checkpoint, CheckpointManifest, find, read
from clickline.train.sparse_tables import BUCKETS, owned_buckets

__all__ = [
    "DENSE",
    "Checkpoint",
    "begin",
    "dense_arrays",
    "dense_content",
    "find",
    "finish",
    "has_rows_of",
    "load_tables",
    "newest_sound",
    "prune",
    "read",
    "restore_tables",
    "table_file",
    "verify",
    "write",
    "write_tables",
]
DENSE = "dense.safetensors"
_TYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BOOL": "?",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "i1",
    "U8": "u1",
}
"""Types of safetensors, as NumPy calls them."""
_TABLE = re.compile(r"table-(\w+?)(?:-(\d{4})-of-(\d{4}))?\.rows")


def table_file(name: str, *, part: int = 0, parts: int = 1) -> str:
    return f"table-{name}.rows" if parts == 1 else f"table-{name}-{part:04d}-of-{parts:04d}.rows"


def write(
    directory: Path,
    *,
    facts: Mapping[str, Any],
    dense: bytes,
    tables: dict[str, _native.Table],
    check: Callable[[], None] = lambda: None,
) -> Checkpoint:
    """Write `directory/step-N`, N from the facts, and return it. `check` raises if it must not become visible."""
    staging = begin(directory, step=facts["step"])
    try:
        files = write_tables(staging, tables)
        return finish(staging, facts=facts, dense=dense, tables=files, check=check)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise


def begin(directory: Path, *, step: int) -> Path:
    """Make the staging directory of a new checkpoint: hidden, beside the place where it will be visible."""
    staging = directory / checkpoint_directories.unfinished_name(step)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        staging.mkdir()
    except OSError as error:
        raise _unwritable(staging, error) from error
    reach("checkpoint.begun")
    return staging


def write_tables(
    staging: Path, tables: dict[str, _native.Table], *, part: int = 0, parts: int = 1
) -> dict[str, FileDigest]:
    """Write one process's tables; returns size and digest of each file, for the manifest."""
    written = {}
    for name, table in tables.items():
        file = staging / table_file(name, part=part, parts=parts)
        try:
            table.save(str(file))
            written[file.name] = digest_of(file)
        except (OSError, CheckpointError) as error:  # the latter from native code
            raise _unwritable(staging, error) from error
    reach("checkpoint.tables-written")
    return written


def finish(
    staging: Path,
    *,
    facts: Mapping[str, Any],
    dense: bytes,
    tables: Mapping[str, FileDigest],
    check: Callable[[], None] = lambda: None,
) -> Checkpoint:
    """Add dense state and the manifest, and make the checkpoint visible. `tables` is what `write_tables` returned.

    `dense` is the content of a safetensors file.
    """
    try:
        write_synced(staging / DENSE, dense)
        reach("checkpoint.dense-written")
        content = {"format": FORMAT, **facts, "files": {**tables, DENSE: digest_of(staging / DENSE)}}
        manifest = cast(CheckpointManifest, {**content, DIGEST_OF_MANIFEST: digest_of_manifest(content)})
        # The manifest is the last file: a directory without one is no checkpoint for any reader, nor for `prune`.
        write_synced(staging / MANIFEST, json.dumps(manifest, indent=1, sort_keys=True).encode())
        # Names must be on the disk before the rename makes them visible, or a crash could show half a checkpoint.
        sync_directory(staging)
        reach("checkpoint.manifest-written")
        place = checkpoint_directories.put_in_place(staging, check=check)
        reach("checkpoint.done")
    except OSError as error:
        shutil.rmtree(staging, ignore_errors=True)
        raise _unwritable(staging, error) from error
    return Checkpoint(place, manifest)


def _unwritable(staging: Path, error: Exception) -> CheckpointError:
    place = staging.with_name(checkpoint_directories.visible_name(staging.name))
    return CheckpointError(
        f"{place}: cannot be written: {error}; those before it are untouched, and --resume continues from the newest"
    )


def verify(checkpoint: Checkpoint) -> None:
    """Raise unless every file has the size and SHA-256 that the manifest lists, and there is no other file."""
    problem = problem_of(checkpoint.path, checkpoint.manifest["files"])
    if problem is not None:
        raise CheckpointError(f"{problem}; {_advice(checkpoint)}")


def newest_sound(directory: Path, *, before: int | None = None) -> Checkpoint | None:
    """The newest checkpoint, of those below a step, whose files are all undamaged."""
    # Steps have ten digits, so the order of names is that of steps. An unreadable manifest is skipped, not raised: this
    # search is made because something is damaged.
    for place in sorted(directory.glob("step-*"), reverse=True):
        try:
            found = read(place)
            if (before is None or found.step < before) and problem_of(place, found.manifest["files"]) is None:
                return found
        except (CheckpointError, OSError):
            continue
    return None


def _advice(damaged: Checkpoint) -> str:
    sound = newest_sound(damaged.path.parent, before=damaged.step)
    if sound is None:
        return "there is no sound checkpoint before it in its run: --fresh starts over"
    return f"{sound.path} is sound: `clickline train JOB --resume-from {sound.path}` resumes from it"


def load_tables(
    checkpoint: Checkpoint,
    tables: dict[str, _native.Table],
    *,
    buckets: tuple[int, int] = (0, BUCKETS),
    before_each: Callable[[], None] = lambda: None,
) -> None:
    """Load rows of some buckets, however many processes wrote them. `before_each` file is called, and may raise."""
    found = _table_files(checkpoint, buckets)
    if found.keys() != tables.keys():
        raise CheckpointError(f"{checkpoint.path}: has tables {sorted(found)}, the model needs {sorted(tables)}")
    # Each file has the rows of one process; a table takes those of its buckets and skips the others.
    for name, table in tables.items():
        for file in found[name]:
            before_each()
            try:
                table.load(str(checkpoint.path / file), *buckets)
            except (RuntimeError, ValueError) as error:
                raise CheckpointError(f"{checkpoint.path / file}: {error}") from error


def restore_tables(checkpoint: Checkpoint, tables: dict[str, _native.Table], *, buckets: tuple[int, int]) -> None:
    """Give rows that these tables have the weights and state that they have in the checkpoint."""
    found = _table_files(checkpoint, buckets)
    for name, table in tables.items():
        for file in found.get(name, ()):
            try:
                table.restore(str(checkpoint.path / file), *buckets)
            except (RuntimeError, ValueError) as error:
                raise CheckpointError(f"{checkpoint.path / file}: {error}") from error


def _table_files(checkpoint: Checkpoint, buckets: tuple[int, int]) -> dict[str, list[str]]:
    """By table, the files that may have rows of these buckets."""
    found: dict[str, list[str]] = {}
    for file in sorted(checkpoint.manifest["files"]):
        match = _TABLE.fullmatch(file)
        if match is not None:
            of_table = found.setdefault(match[1], [])
            if has_rows_of(file, buckets):
                of_table.append(file)
    return found


def has_rows_of(file: str, buckets: tuple[int, int]) -> bool:
    """Whether a file of a checkpoint may have rows of these buckets; what is no part of a table concerns everybody."""
    match = _TABLE.fullmatch(file)
    if match is None or match[2] is None:
        return True
    first, behind = owned_buckets(part=int(match[2]), parts=int(match[3]))
    return first < buckets[1] and buckets[0] < behind


def dense_arrays(checkpoint: Checkpoint) -> dict[str, NDArray[Any]]:
    """The dense part as arrays, without what NumPy has no type for, such as a buffer of a model's own in bfloat16."""
    try:
        entries = deserialize(dense_content(checkpoint))  # type: ignore[no-untyped-call]
    except SafetensorError as error:
        raise CheckpointError(f"{checkpoint.path / DENSE}: {error}") from error
    return {
        name: np.frombuffer(entry["data"], _TYPES[entry["dtype"]]).reshape(entry["shape"])
        for name, entry in entries
        if entry["dtype"] in _TYPES
    }


def dense_content(checkpoint: Checkpoint) -> bytes:
    """The file of the dense part, compared with its digest."""
    file, listed = checkpoint.path / DENSE, checkpoint.manifest["files"].get(DENSE)
    try:
        size = file.stat().st_size
        # A file of the wrong size is not read at all. The bytes that are hashed are those that are parsed: a second
        # read could find another content.
        content = file.read_bytes() if listed is not None and size == listed["bytes"] else b""
        seen: FileDigest = {"bytes": size, "sha256": hashlib.sha256(content).hexdigest()}
        if seen != listed:
            raise CheckpointError(damage(file, seen=seen, listed=listed or {"bytes": 0, "sha256": "none"}))
        return content
    except OSError as error:
        raise CheckpointError(f"{file}: {error}") from error


def prune(
    directory: Path, *, newest: int, keep: int, also: int | None, check: Callable[[], None] = lambda: None
) -> None:
    """Remove all but the newest `keep` checkpoints and the one of step `also`. `check` raises if nothing may be.

    `newest` is the step that was saved last. Those of later steps are left: a run that went on from an earlier
    checkpoint has not come there yet, and they must not crowd out its own.
    """
    last, kept = f"step-{newest:010d}", None if also is None else f"step-{also:010d}"
    # By their names, without reading manifests: a damaged one must not end a run that does not need it.
    whole = [p for p in sorted(directory.glob("step-*")) if p.name <= last and (p / MANIFEST).is_file()]
    for place in whole[:-keep]:
        if place.name != kept:
            checkpoint_directories.remove(place, check=check)
    reach("checkpoint.pruned")
