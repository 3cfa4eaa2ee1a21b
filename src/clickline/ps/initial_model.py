"""What a run begins with, as arrays: the model's declarations, its dense parameters in one vector, its buffers.

Only PyTorch can build a model, and only trainers load it. Parameter servers and the coordinator get this from a trainer
instead: it has all that they need to know of the model, whoever wrote it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clickline.data.embeddings import Embedding


@dataclass(frozen=True)
class InitialModel:
    """A model as it is built from the job and its seed."""

    embeddings: dict[str, Embedding]
    shapes: dict[str, tuple[int, ...]]
    """Of the dense parameters, in the order in which they lie in a vector."""
    values: NDArray[np.float32]
    """All of them side by side."""
    buffers: dict[str, NDArray[Any]]
    random_state: NDArray[np.uint8]
    """PyTorch's, after the model was built."""

    def __post_init__(self) -> None:
        if self.values.shape != (sum(map(prod, self.shapes.values())),):
            raise ValueError(f"{self.values.size} numbers for parameters of the shapes {list(self.shapes.values())}")

    def named(self, vector: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """A vector like `values`, by the names of the parameters."""
        out, place = {}, 0
        for name, shape in self.shapes.items():
            out[name] = vector[place : place + prod(shape)].reshape(shape)
            place += prod(shape)
        return out

    def vector(self, named: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        """The reverse of `named`."""
        return np.concatenate([named[name].reshape(-1) for name in self.shapes] or [np.empty(0, np.float32)])
