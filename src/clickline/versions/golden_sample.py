"""The golden sample: some rows that go with a version, and what the trainer predicted for them.

Whoever serves a version can feed these rows and compare, without the trainer and without its data. It is a safetensors
file: keys, offsets (if some slot has several values), dense, labels, probability. Beware that it comes from a file
like the rest of a version: shapes are checked before a native plan is made of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from clickline.data.batch import Batch
from clickline.data.schema import Schema
from clickline.errors import VersionError

ROWS = 1024
TOLERANCE = 1e-5
"""What predictions of the sample may differ by from the trainer's: probabilities, and values of up to 1."""
LIMIT = 1 << 30


@dataclass(frozen=True)
class Sample:
    """Rows, and the trainer's predictions for them once they were made."""

    batch: Batch
    probability: NDArray[np.float32]
    """[rows, labels]; values, if the schema's loss is squared"""

    @property
    def tolerance(self) -> float:
        """What predictions may differ by: values are larger than probabilities, and so is what 32 bits leave out."""
        largest = float(np.abs(self.probability).max(initial=0.0))
        return TOLERANCE * max(1.0, largest) if np.isfinite(largest) else TOLERANCE

    def write(self, path: Path) -> None:
        columns: dict[str, NDArray[np.generic]] = {
            "keys": self.batch.keys,
            "dense": self.batch.dense,
            "labels": self.batch.labels,
            "probability": self.probability,
        }
        if self.batch.offsets is not None:
            columns["offsets"] = self.batch.offsets
        path.write_bytes(save({name: np.ascontiguousarray(column) for name, column in columns.items()}))


def read_sample(path: Path, *, schema: Schema) -> Sample:
    """Read what `Sample.write` wrote. Raises VersionError if it does not fit the schema."""
    if path.stat().st_size > LIMIT:
        raise VersionError(f"{path}: larger than {LIMIT} bytes; not a sample")
    try:
        columns = load(path.read_bytes())
        keys, dense, labels = columns["keys"], columns["dense"], columns["labels"]
        probability, offsets = columns["probability"], columns.get("offsets")
    except (SafetensorError, KeyError, ValueError, TypeError, AttributeError) as error:
        raise VersionError(f"{path}: not a sample: {error}") from error
    # Every shape follows from the number of rows and the schema: native code trusts them.
    rows, slots = labels.shape[0] if labels.ndim else 0, len(schema.slots)
    if rows == 0:
        raise VersionError(f"{path}: no rows in it")
    # With offsets a slot has any number of keys; their total is compared with the last offset below.
    shapes = {
        "dense": (dense, np.float32, (rows, schema.dense_width)),
        "labels": (labels, np.float32, (rows, len(schema.labels))),
        "probability": (probability, np.float32, (rows, len(schema.labels))),
        "keys": (keys, np.uint64, keys.shape if offsets is not None and keys.ndim == 1 else (rows * slots,)),
    }
    if offsets is not None:
        shapes["offsets"] = (offsets, np.int64, (rows * slots + 1,))
    for name, (column, dtype, shape) in shapes.items():
        if column.dtype != dtype or column.shape != shape:
            raise VersionError(
                f"{path}: {name} is {column.dtype} {column.shape}; {np.dtype(dtype)} {shape} was expected"
            )
    if offsets is not None and (offsets[0] != 0 or offsets[-1] != len(keys) or (np.diff(offsets) < 1).any()):
        raise VersionError(f"{path}: offsets do not cut {len(keys)} keys into {rows * slots} non-empty parts")
    return Sample(Batch(labels=labels, dense=dense, keys=keys, offsets=offsets), probability)
