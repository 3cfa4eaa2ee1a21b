"""Directories in which PaddleRec saves: <path>/<epoch>, <path>/epoch_<E>_batch_<B>, <path>_epoch_<N>.

They are links to checkpoints and versions of ours, so nothing is there twice. Epochs count from 0 there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from clickline.errors import CheckpointError
from clickline.files.atomic import replace_file
from clickline.train.checkpoints import checkpoint_manifest
from clickline.train.checkpoints.checkpoint_directories import MANIFEST
from clickline.train.checkpoints.checkpoint_manifest import Checkpoint

_WITHIN = ("position", "book")


def epoch_checkpoints(run: Path) -> dict[int, Path]:
    """The checkpoint at the end of each epoch that the run has kept."""
    return {one.epoch - 1: one.path for one in _checkpoints(run) if _ends_epoch(one)}


def link_steps(run: Path, directory: Path, *, epochs: int) -> list[Path]:
    """Let <directory>/epoch_E_batch_B be each checkpoint within an epoch that the run has kept."""
    checkpoints = _checkpoints(run)
    links = []
    for checkpoint in checkpoints:
        if not _ends_epoch(checkpoint):
            # A run that began with weights of another one goes on counting from its step.
            began = int(checkpoint.manifest["standing"].get("first_step", 0))
            steps, epoch = (checkpoints[-1].step - began) // epochs, checkpoint.epoch - 1
            batch = checkpoint.step - began - epoch * steps
            links.append(link(directory / f"epoch_{epoch}_batch_{batch}", checkpoint.path))
    return links


def saved_epochs(path: Path, *, first: int = 0, last: int | None = None) -> Iterator[tuple[str, Path]]:
    """The checkpoints that a path stands for, with the names of their directories: one, or those of some epochs."""
    named = [entry for entry in path.glob("*") if entry.name.isdecimal() and int(entry.name) >= first]
    epochs = sorted(named, key=lambda entry: int(entry.name))
    if (path / MANIFEST).is_file():
        yield path.name, path.resolve()
    elif wanted := [entry for entry in epochs if last is None or int(entry.name) < last]:
        yield from ((entry.name, entry.resolve()) for entry in wanted)
    else:
        there = ", ".join(sorted(entry.name for entry in (path if path.is_dir() else path.parent).glob("*"))[:10])
        message = f"{path}: no checkpoint of Clickline there, nor one for each epoch"
        place = path if path.is_dir() else path.parent
        raise CheckpointError(f"{message}; {place} has {there or 'nothing'}")


def write_results(run: Path, path: Path) -> list[Path]:
    """Write the lines of metrics of each epoch of training into <path>_epoch_<N>."""
    by_epoch: dict[int, list[object]] = {}
    for text in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines():
        line = json.loads(text)
        if line.get("kind") == "train":
            by_epoch.setdefault(int(line["epoch"]) - 1, []).append(line)
    return [write_values(path.with_name(f"{path.name}_epoch_{epoch}"), lines) for epoch, lines in by_epoch.items()]


def write_values(file: Path, values: object) -> Path:
    """Write values as JSON; gives back the file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    replace_file(file, json.dumps(values, indent=1).encode() + b"\n")
    return file


def _checkpoints(run: Path) -> list[Checkpoint]:
    return checkpoint_manifest.find(run / "checkpoints")


def _ends_epoch(checkpoint: Checkpoint) -> bool:
    standing = checkpoint.manifest["standing"]
    return all(standing.get(name) is None for name in _WITHIN) and checkpoint.manifest.get("progress") is None


def link(place: Path, target: Path) -> Path:
    """Let a path lead to a checkpoint or version; gives back the path."""
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.is_dir() and not place.is_symlink():
        raise CheckpointError(
            f"{place}: a directory that is none of ours is in the way; name another path, or remove it"
        )
    aside = place.with_name(f".{place.name}.new")
    aside.unlink(missing_ok=True)
    # Relative, so that what was trained can be moved or copied as a whole.
    aside.symlink_to(os.path.relpath(target.resolve(), place.parent.resolve()))
    aside.replace(place)
    return place
