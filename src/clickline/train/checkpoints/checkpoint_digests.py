"""Digests of a checkpoint's files: made when it is written, compared wherever it is loaded."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypedDict

from clickline.files.digests import file_sha256
from clickline.train.checkpoints.checkpoint_directories import MANIFEST

DIGEST_OF_MANIFEST = "manifest_sha256"
_THREADS = 4
"""Files that are hashed at the same time, at most: more would only compete for the disk."""


class FileDigest(TypedDict):
    """A file of a checkpoint, as the manifest lists it."""

    bytes: int
    sha256: str


def digest_of(path: Path) -> FileDigest:
    """Size and SHA-256 of a file."""
    return {"bytes": path.stat().st_size, "sha256": file_sha256(path)}


def digest_of_manifest(manifest: Mapping[str, object]) -> str:
    """SHA-256 of a manifest's content, whatever the order of its keys, without the digest itself."""
    content = {name: value for name, value in manifest.items() if name != DIGEST_OF_MANIFEST}
    as_read = json.loads(json.dumps(content))  # keys become text, tuples become lists
    return hashlib.sha256(json.dumps(as_read, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def problem_of(directory: Path, files: Mapping[str, FileDigest]) -> str | None:
    """What is wrong with the first bad file of a checkpoint; None if all files are as the manifest lists them."""
    there = {file.name for file in directory.iterdir()} - {MANIFEST}
    for name in sorted(files.keys() - there):
        return f"{directory / name}: missing"
    for name in sorted(there - files.keys()):
        return f"{directory / name}: not in the manifest; remove it if you put it there"
    names = sorted(files)
    with ThreadPoolExecutor(min(_THREADS, len(names) or 1, os.cpu_count() or 1)) as pool:
        for name, seen in zip(names, pool.map(lambda name: digest_of(directory / name), names), strict=True):
            if seen != files[name]:
                return damage(directory / name, seen=seen, listed=files[name])
    return None


def damage(file: Path | str, *, seen: FileDigest, listed: FileDigest) -> str:
    """The message about a file that is not what its manifest lists."""
    return (
        f"{file}: damaged: {seen['bytes']} bytes with SHA-256 {seen['sha256'][:12]}…, "
        f"manifest says {listed['bytes']} and {listed['sha256'][:12]}…"
    )
