"""Gradients of rows: what a batch, or several of them, has for one table. No PyTorch: servers merge them too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clickline import _native

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Gradient:
    """A batch's gradient for one table: arrays of one length, by distinct key in the order of buckets."""

    keys: NDArray[np.uint64]
    slots: NDArray[np.uint16]
    shows: Floats
    clicks: Floats
    values: Floats
    """[keys, dim]"""


def merged(parts: Sequence[Gradient], *, threads: int) -> Gradient:
    """Merge several gradients of one table: a key that occurs in two of them learns once, from the sum.

    Sums run in the order of the parts, so the same parts give the same bits.
    """
    keys = np.concatenate([part.keys for part in parts])
    # A plan over the keys themselves finds the distinct ones; its `scatter` then adds up what belongs to one key.
    # `labels` only fill the clicks of this plan, which are not used: those of the parts are added up below.
    merge = _native.Plan(
        keys, None, columns=1, select=[0], pooling=[0], labels=np.zeros(len(keys), np.float32), threads=threads
    )

    def summed(columns: list[Floats]) -> Floats:
        joined = np.concatenate(columns).reshape(len(keys), 1, -1)
        none = np.zeros((len(merge.unique), joined.shape[2]), np.float32)
        out = np.empty_like(none)
        merge.scatter(joined, none, out, threads=threads)
        return out

    # A key's slot is the same in all parts: take it from the key's first occurrence.
    order = np.argsort(keys, kind="stable")
    first = order[np.searchsorted(keys, merge.unique, sorter=order)]
    slots = np.concatenate([part.slots for part in parts])[first]
    shows = summed([part.shows for part in parts])[:, 0].copy()
    clicks = summed([part.clicks for part in parts])[:, 0].copy()
    return Gradient(merge.unique, slots, shows, clicks, summed([part.values for part in parts]))
