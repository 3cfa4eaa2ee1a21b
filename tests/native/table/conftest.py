"""What the tests of tables share: a push with everything but keys and gradients filled in."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from clickline._native import Table

Push = Callable[..., None]


@pytest.fixture
def push() -> Push:
    def push(
        table: Table,
        keys: Sequence[int] | NDArray[np.uint64],
        grads: float | NDArray[np.float32] = 1.0,
        *,
        shows: float = 1.0,
        clicks: float = 0.0,
        slot: int = 0,
        tick: int = 1,
        scale: float = 1.0,
        threads: int = 1,
    ) -> None:
        n = len(keys)
        table.push(
            np.ascontiguousarray(keys, np.uint64),
            np.ascontiguousarray(np.broadcast_to(np.asarray(grads, np.float32), (n, table.dim))),
            np.full(n, shows, np.float32),
            np.full(n, clicks, np.float32),
            np.full(n, slot, np.uint16),
            tick=tick,
            scale=scale,
            threads=threads,
        )

    return push


@pytest.fixture
def pull() -> Callable[..., NDArray[np.float32]]:
    def pull(
        table: Table,
        keys: Sequence[int] | NDArray[np.uint64],
        *,
        training: bool = True,
        slot: int | None = None,
        threads: int = 1,
    ) -> NDArray[np.float32]:
        out = np.full((len(keys), table.dim), np.nan, np.float32)
        slots = None if slot is None else np.full(len(keys), slot, np.uint16)
        table.pull(np.ascontiguousarray(keys, np.uint64), out, training=training, slots=slots, threads=threads)
        return out

    return pull
