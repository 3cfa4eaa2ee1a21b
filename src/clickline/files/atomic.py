"""What makes files outlive a crash, and tells whether a process did.

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
    path: Path, content: bytes, *, synced: bool = True, before_rename: Callable[[], None] = lambda: None
) -> None:
    """Replace a file as a whole: readers, also those after a crash, find the old content or the new one.

    With `synced=False` that holds for the death of a process, not for a loss of power: for files that nobody trusts
    afterwards. `before_rename` is called when all but the rename is done; if it raises, nothing has changed.
    """
    # A name of its own, since a writer that was overtaken must not write into the file of the one that overtook it.
    aside = path.with_name(f".{path.name}.{secrets.token_hex(4)}{UNFINISHED}")
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
    if synced:
        sync_directory(path.parent)


def replace_json(path: Path, facts: Mapping[str, Any], *, indent: int | None = 1, synced: bool = True) -> None:
    """`replace_file` with a JSON object."""
    replace_file(path, json.dumps(facts, indent=indent).encode() + b"\n", synced=synced)


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


def alive(pid: int) -> bool:
    """Whether a process of this machine is there."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
