"""Types of the native core. One section per bind_*.cpp."""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

arch: str

# --- hash ---
def xxh64(data: bytes, seed: int = 0) -> int: ...
def feature_key(slot: str, value: bytes) -> int: ...
def bucket_of(key: int) -> int: ...

# --- parse ---
Bytes: TypeAlias = bytes | bytearray | memoryview  # or anything else with the buffer protocol
ArrowList: TypeAlias = tuple[int, Bytes | None, Bytes | None]  # offset, validity, 64-bit starts
# name, kind, offset, length, validity, starts, values, list; data/arrow.py makes them
ArrowColumn: TypeAlias = tuple[str, str, int, int, Bytes | None, Bytes | None, Bytes | None, ArrowList | None]

class Parsed:
    """Rows as arrays (see data/batch.py), and what there is to say about the text they came from."""

    n: int
    labels: NDArray[np.float32]
    dense: NDArray[np.float32]
    keys: NDArray[np.uint64]
    offsets: NDArray[np.int64] | None
    weights: NDArray[np.float32] | None
    times: NDArray[np.int64] | None
    groups: NDArray[np.uint64] | None
    lines: int
    """Lines consumed, bad and blank ones included."""
    bad: int
    errors: list[tuple[int, str]]
    """The first ten bad rows: line in the block, from 1, and why."""
    missing_slots: NDArray[np.uint64]
    """Rows without a value, per slot."""
    missing_dense: NDArray[np.uint64]
    """Rows without a value, per dense feature."""
    def __len__(self) -> int: ...

class Parser:
    def __init__(
        self,
        *,
        format: str,  # criteo, slots, elasticctr, csv, columns
        columns: Sequence[str],  # csv, columns: all columns of the data, in their order
        labels: Sequence[str],
        slots: Sequence[tuple[str, str, str, str, int, bool]],  # name, column, bucket, separator, max_values, keep_last
        # name, column, size, normalise, center, spread, missing
        dense: Sequence[tuple[str, str, int, str, float, float, float]],
        weight: str,
        time: str,
        group: str,  # empty: none
        raw_keys: bool,
        delimiter: str,
    ) -> None: ...
    columns: list[str]
    """Those that are used."""
    def parse(self, data: Bytes) -> Parsed: ...
    def parse_columns(self, rows: int, columns: Sequence[ArrowColumn]) -> Parsed: ...
