"""Checkpoints: one directory each, complete or invisible.

A checkpoint is written into a hidden directory beside its place, every file synced and its SHA-256 put into the
manifest, and made visible by one rename. So a killed save leaves the one before usable, and a damaged file is found
before it is used. docs/reference/checkpoint.md is the specification.

Where several processes hold the tables, each writes its own buckets into the same hidden directory: `begin`, then
`write_tables` in each, then `finish` in one.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

from clickline import _native
from clickline.durable import alive, sync_directory, write_synced
from clickline.errors import CheckpointError
from clickline.ps.tables import BUCKETS

FORMAT = 1
MANIFEST = "manifest.json"
DENSE = "dense.safetensors"
MANIFEST_LIMIT = 16 << 20
_TABLE = re.compile(r"table-(\w+?)(?:-\d{4}-of-\d{4})?\.rows")


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint on disk, its manifest read but its files not yet."""

    path: Path
    manifest: dict[str, Any]

    @property
    def step(self) -> int:
        return int(self.manifest["step"])


def table_file(name: str, *, part: int = 0, parts: int = 1) -> str:
    return f"table-{name}.rows" if parts == 1 else f"table-{name}-{part:04d}-of-{parts:04d}.rows"


def write(
    directory: Path,
    *,
    facts: dict[str, Any],
    tensors: dict[str, torch.Tensor],
    tables: dict[str, _native.Table],
) -> Checkpoint:
    """Write `directory/step-N`, N from the facts, and return it. Replaces nothing."""
    aside = begin(directory, step=facts["step"])
    try:
        files = write_tables(aside, tables)
        return finish(aside, facts=facts, tensors=tensors, tables=files)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise


def begin(directory: Path, *, step: int) -> Path:
    """The hidden directory of a checkpoint to be."""
    aside = directory / f".writing-step-{step:010d}-{os.getpid()}"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir()
    except OSError as error:
        raise _unwritable(aside, error) from error
    return aside


def write_tables(
    aside: Path, tables: dict[str, _native.Table], *, part: int = 0, parts: int = 1
) -> dict[str, dict[str, Any]]:
    """Write one process's tables; returns size and digest of each file, for the manifest."""
    written = {}
    for name, table in tables.items():
        file = aside / table_file(name, part=part, parts=parts)
        table.save(str(file))
        written[file.name] = _digest(file)
    return written


def finish(
    aside: Path,
    *,
    facts: dict[str, Any],
    tensors: dict[str, torch.Tensor],
    tables: dict[str, dict[str, Any]],
) -> Checkpoint:
    """Add dense state and the manifest, and make the checkpoint visible. `tables` is what `write_tables` returned."""
    place = aside.parent / aside.name.removeprefix(".writing-").rpartition("-")[0]
    try:
        write_synced(aside / DENSE, save_tensors({name: tensor.contiguous() for name, tensor in tensors.items()}))
        files = {**tables, DENSE: _digest(aside / DENSE)}
        manifest = {"format": FORMAT, **facts, "files": files}
        write_synced(aside / MANIFEST, json.dumps(manifest, indent=1, sort_keys=True).encode())
        sync_directory(aside)
        if place.exists():  # the same step, reached again after a resume: the new one is as good
            shutil.rmtree(place)
        aside.rename(place)
        sync_directory(aside.parent)
    except OSError as error:
        shutil.rmtree(aside, ignore_errors=True)
        raise _unwritable(place, error) from error
    return Checkpoint(place, manifest)


def _unwritable(place: Path, error: OSError) -> CheckpointError:
    return CheckpointError(f"{place}: cannot be written: {error}; those before it are untouched")


def find(directory: Path) -> list[Checkpoint]:
    """All complete checkpoints of a run, oldest first. Unfinished saves of dead processes are ignored."""
    if not directory.is_dir():
        return []
    found = [read(place) for place in sorted(directory.glob("step-*")) if (place / MANIFEST).is_file()]
    return sorted(found, key=lambda checkpoint: checkpoint.step)


def read(path: Path) -> Checkpoint:
    """Read and check a manifest."""
    manifest_path = path / MANIFEST
    try:
        if manifest_path.stat().st_size > MANIFEST_LIMIT:
            raise CheckpointError(f"{manifest_path}: larger than {MANIFEST_LIMIT} bytes; not a manifest")
        manifest = json.loads(manifest_path.read_bytes())
    except FileNotFoundError:
        raise CheckpointError(
            f"{path}: no checkpoint here (no {MANIFEST}); expected a directory such as "
            "runs/NAME/checkpoints/step-0000000100"
        ) from None
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{manifest_path}: unreadable: {error}") from error
    known = isinstance(manifest, dict) and manifest.get("format") == FORMAT
    if not known or not isinstance(manifest.get("files"), dict):
        raise CheckpointError(f"{manifest_path}: not a manifest of format {FORMAT}")
    for name in manifest["files"]:
        if "/" in name or name.startswith("."):
            raise CheckpointError(f"{manifest_path}: file name {name!r} leaves the checkpoint's directory")
    return Checkpoint(path, manifest)


def verify(checkpoint: Checkpoint) -> None:
    """Raise unless every file is there with the size and SHA-256 that the manifest says, and no other."""
    wanted = checkpoint.manifest["files"]
    there = {file.name for file in checkpoint.path.iterdir()} - {MANIFEST}
    for name in sorted(wanted.keys() - there):
        raise CheckpointError(f"{checkpoint.path / name}: missing; use an older checkpoint")
    for name in sorted(there - wanted.keys()):
        raise CheckpointError(f"{checkpoint.path / name}: not in the manifest; remove it if you put it there")
    for name, facts in sorted(wanted.items()):
        seen = _digest(checkpoint.path / name)
        if seen != facts:
            raise CheckpointError(
                f"{checkpoint.path / name}: damaged: {seen['bytes']} bytes with SHA-256 {seen['sha256'][:12]}…, "
                f"manifest says {facts['bytes']} and {facts['sha256'][:12]}…; use an older checkpoint"
            )


def load(checkpoint: Checkpoint, *, tables: dict[str, _native.Table]) -> dict[str, torch.Tensor]:
    """Verify, load the tables, and return the dense tensors."""
    verify(checkpoint)
    tensors = dense_tensors(checkpoint)
    load_tables(checkpoint, tables)
    return tensors


def load_tables(
    checkpoint: Checkpoint,
    tables: dict[str, _native.Table],
    *,
    buckets: tuple[int, int] = (0, BUCKETS),
    before_each: Callable[[], None] = lambda: None,
) -> None:
    """Load rows of some buckets, however many processes wrote them. `before_each` file is called, and may raise."""
    found: dict[str, list[str]] = {}
    for file in sorted(checkpoint.manifest["files"]):
        match = _TABLE.fullmatch(file)
        if match is not None:
            found.setdefault(match[1], []).append(file)
    if found.keys() != tables.keys():
        raise CheckpointError(f"{checkpoint.path}: has tables {sorted(found)}, the model needs {sorted(tables)}")
    for name, table in tables.items():
        for file in found[name]:
            before_each()
            try:
                table.load(str(checkpoint.path / file), *buckets)
            except (RuntimeError, ValueError) as error:
                raise CheckpointError(f"{checkpoint.path / file}: {error}") from error


def dense_tensors(checkpoint: Checkpoint) -> dict[str, torch.Tensor]:
    """The dense part alone."""
    try:
        return load_tensors((checkpoint.path / DENSE).read_bytes())
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{checkpoint.path / DENSE}: {error}") from error


def prune(directory: Path, *, keep: int, also: int | None) -> None:
    """Remove all but the newest `keep` checkpoints and the one of step `also`, and what killed saves left."""
    checkpoints = find(directory)
    for checkpoint in checkpoints[:-keep]:
        if checkpoint.step != also:
            shutil.rmtree(checkpoint.path)
    for leftover in directory.glob(".writing-*"):
        if not alive(int(leftover.name.rsplit("-", 1)[1])):
            shutil.rmtree(leftover, ignore_errors=True)


def _digest(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        return {"bytes": path.stat().st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}
