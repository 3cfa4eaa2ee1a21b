"""Checkpoints written as PaddlePaddle v1 has them: a directory pass-NNNNN for each epoch, from 0, a file per parameter.

    pass-00000/NAME.w0        the rows of table NAME, in the order of their keys
    pass-00000/keys/NAME.npy  those keys: v1 knows rows by their place alone
    pass-00000/PARAMETER      a dense parameter, as evaluation uses it: its average, if the job has one
    pass-00000/path.txt       the job file
    pass-00000/done           which checkpoint it is; written last

A directory becomes visible by a rename when it is complete.
"""

from __future__ import annotations

import os
import shutil
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch

from clickline import _native
from clickline.compat.paddle_v1.parameter_files import V1Writer
from clickline.errors import CheckpointError, DataError
from clickline.publish.checkpoint_source import CheckpointSource, open_checkpoint_source
from clickline.train.checkpoints.checkpoint_digests import digest_of_manifest
from clickline.train.checkpoints.checkpoint_directories import MANIFEST
from clickline.train.checkpoints.checkpoint_manifest import Checkpoint, read
from clickline.train.run_files.run_directory import CHECKPOINTS, JOB_FILE, complete_checkpoints, find_run

_OURS = "clickline "
"""What `done` begins with."""
_ROWS = 65_536
"""Of a table that are in memory at a time, beside the table itself."""


def write_passes(source: Path, out: Path, *, drop_later: bool = False) -> list[Path]:
    """Write each epoch of a run that has a checkpoint at its end, or the one checkpoint; gives the new directories.

    What is there already is left as it is, unless it is of another checkpoint. `drop_later`: passes of ours after the
    last one are removed, which are of a run before, or of one that went back since.
    """
    if (source / MANIFEST).is_file():
        return _written([read(source)], out)
    run = find_run(source)
    checkpoints = [one for one in complete_checkpoints(run / CHECKPOINTS) if one.ends_epoch]
    new = _written(checkpoints, out)
    if drop_later and checkpoints:
        _drop(out, after=checkpoints[-1].epoch - 1)
    return new


def _drop(out: Path, *, after: int) -> None:
    for place in out.glob("pass-*"):
        number = place.name.removeprefix("pass-")
        if not number.isdigit() or int(number) <= after or not (place / "done").is_file():
            continue
        if (place / "done").read_text(encoding="utf-8", errors="replace").startswith(_OURS):
            shutil.rmtree(place)


def _written(checkpoints: list[Checkpoint], out: Path) -> list[Path]:
    new = []
    for checkpoint in checkpoints:
        if not checkpoint.ends_epoch:
            raise CheckpointError(
                f"{checkpoint.path}: written within epoch {checkpoint.epoch}, but a pass is a whole epoch: choose one "
                "at its end"
            )
        place, done = out / f"pass-{checkpoint.epoch - 1:05d}", _mark(checkpoint)
        if (place / "done").is_file() and (place / "done").read_text(encoding="utf-8") == done:
            continue
        try:
            _write(checkpoint, place, done)
        except (CheckpointError, FileNotFoundError):
            if (checkpoint.path / MANIFEST).is_file():
                raise
            continue  # a running job keeps only the last ones, and this is not one of them any more
        new.append(place)
    return new


def _mark(checkpoint: Checkpoint) -> str:
    digest = digest_of_manifest(checkpoint.manifest)
    return f"{_OURS}{version('clickline')}\n{checkpoint.path.name} {digest}\n"


def _write(checkpoint: Checkpoint, place: Path, done: str) -> None:
    source = open_checkpoint_source(checkpoint.path, threads=1)
    aside = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        (aside / "keys").mkdir(parents=True)
        _write_dense(source, aside)
        for name, table in source.learner.sparse.tables.items():
            _write_table(name, table, aside)
        (aside / "path.txt").write_text(f"../{JOB_FILE}\n", encoding="utf-8")
        (aside / "done").write_text(done, encoding="utf-8")
        if place.exists():  # of a run before, which --fresh has thrown away
            shutil.rmtree(place)
        aside.rename(place)
    except OSError as error:
        raise DataError(f"{place}: cannot be written: {error}") from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _write_dense(source: CheckpointSource, directory: Path) -> None:
    with source.learner.average.in_place():
        for name, tensor in source.learner.model.state_dict().items():
            if torch.is_floating_point(tensor):
                values = tensor.detach().to(torch.float32).contiguous().numpy()
                with V1Writer(directory / name.replace("/", "_"), values.size) as file:
                    file.append(values)


def _write_table(name: str, table: _native.Table, directory: Path) -> None:
    keys = np.sort(table.keys())
    np.save(directory / "keys" / f"{name}.npy", keys, allow_pickle=False)
    with V1Writer(directory / f"{name}.w0", len(keys) * table.dim) as file:
        for begin in range(0, len(keys), _ROWS):
            file.append(table.rows(keys[begin : begin + _ROWS]))
