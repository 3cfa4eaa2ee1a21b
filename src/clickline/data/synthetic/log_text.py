"""Millions of log lines as bytes, without a loop over rows.

A line is laid out in cells of fixed width, unused places hold a zero byte, and one pass over the block drops those.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Cells = NDArray[np.uint8]
"""[rows, width]"""

_DIGITS = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)
_PAIRS = np.stack([np.repeat(_DIGITS, 16), np.tile(_DIGITS, 16)], axis=1).copy()


def constant(text: bytes, rows: int) -> Cells:
    """The same bytes in every row."""
    return np.broadcast_to(np.frombuffer(text, dtype=np.uint8), (rows, len(text)))


def hexadecimal(values: NDArray[np.uint32], present: NDArray[np.bool_]) -> Cells:
    """Eight digits each, nothing where not present."""
    big_endian = values.astype(">u4").view(np.uint8).reshape(-1, 4)
    cells: Cells = _PAIRS[big_endian].reshape(-1, 8)
    cells *= present[:, None]
    return cells


def decimal(values: NDArray[np.int64], present: NDArray[np.bool_], *, width: int) -> Cells:
    """Whole numbers of at most `width` digits, with a minus where negative; nothing where not present."""
    cells = np.zeros((len(values), width + 1), dtype=np.uint8)
    rest: NDArray[np.unsignedinteger[Any]] = np.abs(values).astype(np.uint32 if width <= 9 else np.uint64)
    for place in range(width, 0, -1):
        digit = rest % 10 + ord("0")
        cells[:, place] = digit if place == width else np.where(rest > 0, digit, 0)  # no leading zeros
        rest = rest // 10
    cells[:, 0] = np.where(values < 0, ord("-"), 0)
    cells *= present[:, None]
    return cells


def lines(cells: Sequence[Cells]) -> tuple[bytes, NDArray[np.int64]]:
    """The cells side by side with a newline after each row; and where each line ends."""
    rows = len(cells[0])
    block = np.concatenate([*cells, constant(b"\n", rows)], axis=1)
    used = block != 0
    return block[used].tobytes(), np.cumsum(used.sum(axis=1), dtype=np.int64)
