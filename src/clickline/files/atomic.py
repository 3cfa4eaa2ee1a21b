"""Atomic replacement of files: a reader finds the old content or the new one, also after a crash.

Imports nothing of the project: any layer may use it.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

UNFINISHED = ".new"
"""How the name of a replacement ends that was not finished. It begins with a dot."""


def write_synced(path: Path, content: bytes) -> None:
    """Write a file and wait until it is on the disk."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def replace_file(
    path: Path,
    content: bytes,
    *,
    synced: bool = True,
    only_writer: bool = False,
    before_rename: Callable[[], None] = lambda: None,
) -> None:
    """Replace a file as a whole: readers, also those after a crash, find the old content or the new one.

    With `synced=False` that holds for the death of a process, not for a loss of power: for files that nobody trusts
    afterwards. `only_writer`: no other process writes this file now, so the temporary file always has the same name,
    and what a killed predecessor has left is overwritten. `before_rename` is called when all but the rename is done; if
    it raises, nothing has changed.
    """
    # A name of its own, since a writer that was overtaken must not write into the file of the one that overtook it.
    own = "" if only_writer else f".{secrets.token_hex(4)}"
    aside = path.with_name(f".{path.name}{own}{UNFINISHED}")
    try:
        if synced:
            write_synced(aside, content)
        else:
            aside.write_bytes(content)
        before_rename()
        aside.replace(path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    # Until its directory is synced, a loss of power may undo the rename.
    if synced:
        sync_directory(path.parent)


def replace_json(
    path: Path, value: Mapping[str, Any], *, indent: int | None = 1, synced: bool = True, only_writer: bool = False
) -> None:
    """`replace_file` with a JSON object."""
    replace_file(path, json.dumps(value, indent=indent).encode() + b"\n", synced=synced, only_writer=only_writer)


def remove_unfinished(directory: Path) -> None:
    """Remove what processes that were killed in `replace_file` have left. Only for a directory's one writer."""
    for leftover in directory.glob(f".*{UNFINISHED}"):
        leftover.unlink(missing_ok=True)


def sync_directory(path: os.PathLike[str] | str) -> None:
    """Wait until what was made, renamed or removed in a directory is on the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
