"""Checkpoints found and described by their manifests. Tensors are not loaded here, so PyTorch is not needed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NotRequired, TypedDict, cast

from clickline.errors import CheckpointError
from clickline.train.checkpoints.checkpoint_digests import DIGEST_OF_MANIFEST, FileDigest, digest_of_manifest
from clickline.train.checkpoints.checkpoint_directories import MANIFEST

FORMAT = 1
MANIFEST_LIMIT = 16 << 20


JsonObject = dict[str, Any]
"""A JSON object whose keys are checked where it is used: a job, a schema, the state of a strategy."""


class CheckpointManifest(TypedDict):
    """manifest.json of a checkpoint: docs/reference/checkpoint.md."""

    format: int
    step: int
    standing: JsonObject
    """Where the run was: a RunPosition, or what the coordinator of parameter servers keeps."""
    progress: NotRequired[JsonObject | None]
    """A PieceProgress, within an epoch that is read in pieces."""
    job: JsonObject
    schema: JsonObject
    valid: dict[str, float]
    """Figures of the validation at this very step."""
    valid_files: NotRequired[list[str]]
    files: dict[str, FileDigest]
    manifest_sha256: NotRequired[str]
    sequences: NotRequired[JsonObject]
    """With parameter servers: the requests that each server has executed, so that none is executed again."""


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint on disk, its manifest read but its files not yet."""

    path: Path
    manifest: CheckpointManifest

    @property
    def step(self) -> int:
        return int(self.manifest["step"])

    @property
    def epoch(self) -> int:
        """The epoch in which, or at whose end, it was written, counted from 1."""
        return int(self.manifest["standing"]["epoch"]) + (not self.ends_epoch)

    @property
    def ends_epoch(self) -> bool:
        """Whether it was written at the end of an epoch, not within one."""
        # Within an epoch one of the three is set: by one process, by the coordinator of servers, or by ranks.
        standing = self.manifest["standing"]
        parts = (standing.get("position"), standing.get("book"), self.manifest.get("progress"))
        return all(part is None for part in parts)


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
        content = manifest_path.read_bytes()
    except FileNotFoundError:
        raise CheckpointError(
            f"{path}: no checkpoint here (no {MANIFEST}); expected a directory such as "
            "runs/NAME/checkpoints/step-0000000100"
        ) from None
    except OSError as error:
        raise CheckpointError(f"{manifest_path}: unreadable: {error}") from error
    return Checkpoint(path, parse_manifest(content, manifest_path))


def parse_manifest(content: bytes, manifest_path: Path | str) -> CheckpointManifest:
    """The manifest in a file's content, checked; the path is for messages."""
    try:
        manifest = json.loads(content)
    except ValueError as error:
        raise CheckpointError(f"{manifest_path}: unreadable: {error}") from error
    known = isinstance(manifest, dict) and manifest.get("format") == FORMAT
    if not known or not isinstance(manifest.get("files"), dict):
        raise CheckpointError(f"{manifest_path}: not a manifest of format {FORMAT}")
    # Names are joined to the directory and opened: a manifest from elsewhere must not reach other files.
    for name in manifest["files"]:
        if "/" in name or name.startswith("."):
            raise CheckpointError(f"{manifest_path}: file name {name!r} leaves the checkpoint's directory")
    # Checkpoints of earlier releases have no digest of the manifest; there is nothing to compare then.
    digest = digest_of_manifest(manifest)
    if manifest.get(DIGEST_OF_MANIFEST, digest) != digest:
        raise CheckpointError(
            f"{manifest_path}: damaged: its content has SHA-256 {digest[:12]}…; use another checkpoint"
        )
    return cast(CheckpointManifest, manifest)
