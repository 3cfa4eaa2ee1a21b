"""Directories of checkpoints: put in place, replaced and removed so that a kill at any point leaves whole ones only.

What is visible as `step-N` is whole. Everything else has a name with a dot in front, which readers ignore:

- `.writing-step-N-X` is being written,
- `.replaced-step-N-X` was step-N, until a new one of the same step took its place,
- `.removed-step-N-X` is being deleted.

`figures-N.json` has figures of step-N and goes with it: see checkpoint_figures.py.

A process that takes a run's directory calls `recover`, which clears away what killed processes have left of these.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable
from pathlib import Path

from clickline.files.atomic import sync_directory
from clickline.files.failpoints import reach

MANIFEST = "manifest.json"


def figures_file(checkpoint: Path) -> Path:
    """Where figures of a checkpoint are that were measured after it was written."""
    return checkpoint.with_name(f"figures-{checkpoint.name.removeprefix('step-')}.json")


def unfinished_name(step: int) -> str:
    """For a checkpoint that is being written; `visible_name` is what it becomes."""
    return f".writing-step-{step:010d}-{secrets.token_hex(4)}"


def visible_name(unfinished: str) -> str:
    return unfinished.split("-", 1)[1].rpartition("-")[0]


def put_in_place(staging: Path, *, check: Callable[[], None]) -> Path:
    """Make a finished checkpoint visible. One of the same step, which a resumed run reaches again, is replaced."""
    place = staging.with_name(visible_name(staging.name))
    replaced = place.with_name(f".replaced-{place.name}-{secrets.token_hex(4)}")
    # Checked as late as possible: while the files were written, another process may have taken the directory.
    check()
    # A directory cannot be renamed over another one that has files, so the old one is moved away first.
    if place.exists():
        place.rename(replaced)
        reach("checkpoint.replaced-aside")  # killed here, `recover` puts the old one back
    staging.rename(place)
    # The new name must be on the disk before the old checkpoint is deleted: a loss of power must leave one of them.
    sync_directory(place.parent)
    reach("checkpoint.in-place")
    if replaced.exists():
        _delete(replaced, halfway=lambda: reach("checkpoint.replaced-half-removed"))
    return place


def remove(path: Path, *, check: Callable[[], None] = lambda: None) -> None:
    """Remove a checkpoint. It vanishes first: half of one must not look like a whole."""
    aside = path.with_name(f".removed-{path.name}-{secrets.token_hex(4)}")
    check()
    path.rename(aside)
    # On the disk before the first file goes: a loss of power must not bring the visible name back with half the files.
    sync_directory(path.parent)
    reach("checkpoint.prune-aside")
    figures_file(path).unlink(missing_ok=True)
    _delete(aside, halfway=lambda: reach("checkpoint.prune-half-removed"))


def recover(directory: Path) -> None:
    """Clear away what killed processes have left. Only for the process that holds the run's lock."""
    # Before the loop below, which deletes every `.replaced-` directory that is still there.
    for replaced in directory.glob(".replaced-*"):
        place = replaced.with_name(visible_name(replaced.name))
        if not (place / MANIFEST).is_file():  # killed before the new one was there
            shutil.rmtree(place, ignore_errors=True)
            replaced.rename(place)
            sync_directory(directory)
    for kind in ("writing", "replaced", "removed"):
        for leftover in directory.glob(f".{kind}-*"):
            shutil.rmtree(leftover, ignore_errors=True)


def _delete(directory: Path, *, halfway: Callable[[], None]) -> None:
    # One file goes alone, so that tests can kill the process with a half-deleted directory.
    for file in sorted(directory.iterdir())[:1]:
        file.unlink(missing_ok=True)
        halfway()
    shutil.rmtree(directory, ignore_errors=True)
