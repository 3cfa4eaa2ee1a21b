"""Rows as arrays: what parsers make, what shuffling permutes, what a training step eats."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Batch:
    """Some rows. Keys are row-major: those of row 0's first slot, of its second slot, …, then row 1's."""

    labels: NDArray[np.float32]
    """[rows, labels]"""
    dense: NDArray[np.float32]
    """[rows, dense features]"""
    keys: NDArray[np.uint64]
    """One or more for every row and slot."""
    offsets: NDArray[np.int64] | None = None
    """Where each (row, slot) starts in `keys`, plus the end; None when each has exactly one."""
    weights: NDArray[np.float32] | None = None
    times: NDArray[np.int64] | None = None
    groups: NDArray[np.uint64] | None = None

    def __len__(self) -> int:
        return len(self.labels)
