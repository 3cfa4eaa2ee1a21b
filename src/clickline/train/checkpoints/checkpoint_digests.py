"""Digests of a checkpoint's files: made when it is written, compared wherever it is loaded."""

from __future__ import annotations

import hashlib
import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from clickline.files.digests import file_sha256
from clickline.train.checkpoints.checkpoint_directories import MANIFEST

DIGEST_OF_MANIFEST = "manifest_sha256"
_THREADS = 4
"""Files that are hashed at the same time, at most: more would only compete for the disk."""


def digest_of(path: Path) -> dict[str, Any]:
    """What a manifest says of a file."""
    return {"bytes": path.stat().st_size, "sha256": file_sha256(path)}


def digest_of_manifest(manifest: dict[str, Any]) -> str:
    """Of all it says, whatever the order of its keys, without the digest itself."""
    said = {name: value for name, value in manifest.items() if name != DIGEST_OF_MANIFEST}
    as_read = json.loads(json.dumps(said))  # keys become text, tuples become lists
    return hashlib.sha256(json.dumps(as_read, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def problem_of(directory: Path, files: dict[str, dict[str, Any]]) -> str | None:
    """What is wrong with a checkpoint's files, naming the first bad one; None if every byte is as its manifest says."""
    there = {file.name for file in directory.iterdir()} - {MANIFEST}
    for name in sorted(files.keys() - there):
        return f"{directory / name}: missing"
    for name in sorted(there - files.keys()):
        return f"{directory / name}: not in the manifest; remove it if you put it there"
    names = sorted(files)
    with ThreadPoolExecutor(min(_THREADS, len(names) or 1, os.cpu_count() or 1)) as pool:
        for name, seen in zip(names, pool.map(lambda name: digest_of(directory / name), names), strict=True):
            if seen != files[name]:
                return damage(directory / name, seen=seen, said=files[name])
    return None


def damage(file: Path, *, seen: dict[str, Any], said: dict[str, Any]) -> str:
    """That a file is not what its manifest says."""
    return (
        f"{file}: damaged: {seen['bytes']} bytes with SHA-256 {seen['sha256'][:12]}…, "
        f"manifest says {said['bytes']} and {said['sha256'][:12]}…"
    )
