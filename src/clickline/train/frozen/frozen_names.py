"""Which parts of a model `train.frozen` names, by the names alone: servers have no model.

A pattern names a dense parameter (`mlp.0.weight`), all parameters below a name (`mlp`, `cross.*`) or a table
(`embedding`, `linear`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from math import prod

import numpy as np
from numpy.typing import NDArray

from clickline.data.embeddings import Embedding


def is_frozen(name: str, patterns: Iterable[str]) -> bool:
    """Whether one of the patterns names a parameter or a table."""
    # A plain name stands for all that is below it: `mlp` for mlp.0.weight, not for mlp2.weight.
    return any(fnmatchcase(name, pattern) or name.startswith(f"{pattern}.") for pattern in patterns)


def frozen_tables(embeddings: Mapping[str, Embedding], patterns: Sequence[str]) -> frozenset[str]:
    """The tables that patterns name."""
    return frozenset(one.table for one in embeddings.values() if is_frozen(one.table, patterns))


def frozen_numbers(shapes: Mapping[str, Sequence[int]], patterns: Sequence[str]) -> NDArray[np.bool_] | None:
    """Of all dense parameters in one vector, which numbers are frozen; None if none is."""
    frozen = {name: is_frozen(name, patterns) for name in shapes}
    if not any(frozen.values()):
        return None
    return np.concatenate([np.full(prod(shape), frozen[name]) for name, shape in shapes.items()])
