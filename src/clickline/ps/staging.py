"""Names of the directories in which a checkpoint is written before it is in place."""

from __future__ import annotations

from pathlib import Path


def part_directory(staging: Path, writer: str) -> str:
    """The directory in which one server's files of a checkpoint are written, beside that of the checkpoint.

    Each process has its own: a server that was stopped while it wrote, and replaced, must not write on in a file that
    the one in its place has written. `writer` may be `*`, to find those of all.
    """
    return f".writing-{writer}-{staging.name.removeprefix('.writing-')}"
