"""A trainer's share of a synchronous step, as the arrays that it is sent in."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from clickline.ps.protocol.framing import Arrays
from clickline.train.row_gradients import Gradient

COLUMNS = ("keys", "slots", "shows", "clicks", "values")
"""Of a gradient, in the order of its fields."""


def share(gradients: Sequence[Gradient | None], dense: NDArray[np.float32]) -> Arrays:
    """The gradients of each table, as `NUMBER.COLUMN`, and the dense gradient."""
    arrays: Arrays = {"dense": dense}
    for number, gradient in enumerate(gradients):
        if gradient is not None:
            arrays |= {f"{number}.{column}": getattr(gradient, column) for column in COLUMNS}
    return arrays
