"""SequenceFiles into dictionaries and back, and parameters into SequenceFiles. Bad input fails and leaves no file.

A SequenceFile does not say what its values are: bytes of any size, fp32, or fp32 min, fp32 max and a byte per number.
The caller says so, and every value is checked against it. A key that is there twice is an error, since nothing tells
which of the two is right.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from clickline._native import Dictionary, DictionaryError, encode_rows, write_dictionary
from clickline.compat.cube.sequence_files import aside, read_all, writing
from clickline.errors import DataError

if TYPE_CHECKING:
    from clickline._native import DictionaryFacts

Layout = Literal["bytes", "fp32", "u8"]
DTYPES: dict[Layout, int] = {"bytes": 0, "fp32": 1, "u8": 3}
_BATCH = 65_536


def to_dictionary(
    source: str | os.PathLike[str], out: str | os.PathLike[str], *, layout: Layout = "bytes", threads: int = 1
) -> DictionaryFacts:
    """One dictionary of a SequenceFile, or of all in a directory. Gives its facts."""
    keys, offsets, values = read_all(source)
    sizes = np.diff(offsets)
    dim = 0
    rows: NDArray[np.uint8] | tuple[NDArray[np.uint64], NDArray[np.uint8]] = (offsets, values)
    if layout != "bytes":
        # The first value determines the dimension, since nothing else in the file does; u8 rows begin with two fp32.
        size = int(sizes[0]) if len(sizes) else _size(layout, 1)
        dim = size // 4 if layout == "fp32" else size - 8
        if dim < 1 or _size(layout, dim) != size:
            raise DataError(f"'{source}' does not hold {layout}: the value of key {keys[0]} has {size} bytes")
        if (other := np.flatnonzero(sizes != size)).size:
            place = int(other[0])
            raise DataError(
                f"'{source}' must hold values of {size} bytes, as its first is, but that of key {keys[place]} has "
                f"{sizes[place]}"
            )
        rows = values.reshape(-1, size)
    with aside(out) as temporary:
        try:
            return write_dictionary(temporary, keys, rows, dtype=DTYPES[layout], dim=dim, threads=threads)
        except ValueError as error:  # a key that comes twice
            raise DataError(f"'{source}' makes no dictionary: {error}") from None


def from_dictionary(source: str | os.PathLike[str], out: str | os.PathLike[str], *, seed: int | None = None) -> int:
    """A SequenceFile of a dictionary's rows, in their order. Gives their number.

    Cube has no deleted keys, so a dictionary with some cannot be written for it.
    """
    try:
        dictionary = Dictionary(source)
        dictionary.verify()
    except (DictionaryError, OSError) as error:
        raise DataError(f"'{source}' cannot be read as a dictionary: {error}") from None
    if dictionary.deleted:
        raise DataError(
            f"'{source}' has {dictionary.deleted} deleted keys, which a SequenceFile cannot say: merge it with what it "
            "is a delta of, and write that"
        )
    keys = dictionary.keys()
    with writing(out, seed=seed) as writer:
        for begin in range(0, dictionary.count, _BATCH):
            # In batches: the rows of a mapped dictionary need not fit into memory.
            part = np.ascontiguousarray(keys[begin : begin + _BATCH])
            if dictionary.row_bytes:
                writer.append(part, dictionary.lookup(part)[1])
            else:
                _, offsets, values = dictionary.lookup_values(part)
                writer.append(part, values, offsets)
        return writer.records


def rows_to_sequence(
    rows: NDArray[np.float32],
    out: str | os.PathLike[str],
    *,
    keys: NDArray[np.uint64] | None = None,
    layout: Layout = "fp32",
    seed: int | None = None,
) -> int:
    """A SequenceFile of a parameter's rows as Cube's seq_generator makes it, fp32 or 8 bits: row i under key i.

    With `keys`, row i is under the i-th of them.
    """
    if keys is not None and len(keys) != len(rows):
        raise DataError(f"there are {len(keys)} keys for {len(rows)} rows")
    with writing(out, seed=seed) as writer:
        for begin in range(0, len(rows), _BATCH):
            part = np.ascontiguousarray(rows[begin : begin + _BATCH], np.float32)
            if layout == "u8":
                values = encode_rows(part, DTYPES["u8"])
            else:
                values = part.astype("<f4", copy=False).view(np.uint8).reshape(len(part), -1)
            places = np.arange(begin, begin + len(part), dtype=np.uint64)
            writer.append(places if keys is None else np.ascontiguousarray(keys[begin : begin + len(part)]), values)
        return writer.records


def _size(layout: Layout, dim: int) -> int:
    return 4 * dim if layout == "fp32" else 8 + dim
