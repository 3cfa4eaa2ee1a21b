"""A checkpoint as its manifest tells of it: found and read without PyTorch, since its tensors are not looked at."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clickline.errors import CheckpointError
from clickline.train.checkpoints.checkpoint_digests import DIGEST_OF_MANIFEST, digest_of_manifest
from clickline.train.checkpoints.checkpoint_directories import MANIFEST

FORMAT = 1
MANIFEST_LIMIT = 16 << 20


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint on disk, its manifest read but its files not yet."""

    path: Path
    manifest: dict[str, Any]

    @property
    def step(self) -> int:
        return int(self.manifest["step"])

    @property
    def epoch(self) -> int:
        """The epoch that it was written in, or at the end of, counted from 1."""
        standing = self.manifest["standing"]
        parts = (standing.get("position"), standing.get("book"), self.manifest.get("progress"))
        return int(standing["epoch"]) + any(part is not None for part in parts)


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
    digest = digest_of_manifest(manifest)
    if manifest.get(DIGEST_OF_MANIFEST, digest) != digest:
        raise CheckpointError(
            f"{manifest_path}: damaged: its content has SHA-256 {digest[:12]}…; use another checkpoint"
        )
    return Checkpoint(path, manifest)
