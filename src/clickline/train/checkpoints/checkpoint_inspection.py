"""Looking into checkpoints: what one holds, how two differ."""

from __future__ import annotations

import numpy as np
import torch

from clickline import _native
from clickline.data.schema import Schema
from clickline.errors import CheckpointError
from clickline.train.checkpoints.checkpoint_files import Checkpoint
from clickline.train.checkpoints.dense_tensors import dense_tensors, load
from clickline.train.learner import Learner
from clickline.train.run_files.run_directory import job_of


def summary(checkpoint: Checkpoint) -> dict[str, object]:
    """Facts of a checkpoint, its tables loaded and counted."""
    learner = _opened(checkpoint)
    standing = checkpoint.manifest["standing"]
    return {
        "path": str(checkpoint.path),
        "step": checkpoint.step,
        "epoch": checkpoint.epoch,
        "rows_trained": standing["rows"],
        "model": checkpoint.manifest["job"]["model"]["name"],
        "dense_parameters": sum(parameter.numel() for parameter in learner.model.parameters()),
        "tables": {
            name: {
                "rows": len(table),
                "payload_bytes_per_row": table.memory()["payload_bytes_per_row"],
                "bytes_per_row": round(table.memory()["total_bytes"] / max(len(table), 1), 2),
            }
            for name, table in learner.sparse.tables.items()
        },
        "disk_bytes": sum(file["bytes"] for file in checkpoint.manifest["files"].values()),
        "valid": checkpoint.manifest["valid"],
    }


def difference(one: Checkpoint, other: Checkpoint) -> dict[str, object]:
    """What differs between two checkpoints, in numbers."""
    left, right = dense_tensors(one), dense_tensors(other)
    names = [name for name in left.keys() | right.keys() if name.startswith("model.")]
    parameters = {}
    for name in sorted(names):
        if name not in left or name not in right or left[name].shape != right[name].shape:
            parameters[name] = "only in one, or of another shape"
        elif not torch.equal(left[name], right[name]):
            parameters[name] = f"max |difference| {float((left[name].double() - right[name].double()).abs().max()):.3g}"
    tables_one, tables_other = _opened(one).sparse.tables, _opened(other).sparse.tables
    tables = {name: {"only in one": 1} for name in sorted(tables_one.keys() ^ tables_other.keys())}
    for name in sorted(tables_one.keys() & tables_other.keys()):
        tables[name] = _table_difference(tables_one[name], tables_other[name])
    same = not parameters and not any(count for table in tables.values() for count in table.values())
    return {"same": same, "steps": f"{one.step} and {other.step}", "parameters": parameters, "tables": tables}


def _table_difference(one: _native.Table, other: _native.Table) -> dict[str, int]:
    left, right = one.keys(), other.keys()
    both = np.intersect1d(left, right)
    changed = 0
    if len(both) and one.rows(both).shape == other.rows(both).shape:
        changed = int((one.rows(both) != other.rows(both)).any(axis=1).sum())
    elif len(both):
        changed = len(both)
    return {"rows added": len(right) - len(both), "rows removed": len(left) - len(both), "rows changed": changed}


def _opened(checkpoint: Checkpoint) -> Learner:
    try:
        job = job_of(checkpoint)
        learner = Learner(job=job, schema=Schema.from_dict(checkpoint.manifest["schema"]), threads=1)
    except (KeyError, ValueError) as error:
        raise CheckpointError(f"{checkpoint.path}: its manifest does not describe a job: {error}") from error
    load(checkpoint, tables=learner.sparse.tables)
    return learner
