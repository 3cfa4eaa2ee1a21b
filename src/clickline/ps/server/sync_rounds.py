"""Synchronous steps on a server: every trainer's share is awaited, merged in the order of ranks, and applied once.

So k trainers with batch b do what one with batch k·b does, and the same trainers with the same data give the same
bits again. A trainer without data leaves the round; the others go on. When the coordinator rolls back, whoever waits
here is sent away.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from clickline import _native
from clickline.train.flat_parameters import DenseBlock
from clickline.train.sparse import Gradient, merged

Arrays = dict[str, NDArray[Any]]
_COLUMNS = ("keys", "slots", "shows", "clicks", "values")


class Rounds:
    """The steps of one generation."""

    def __init__(self, tables: Sequence[_native.Table], block: DenseBlock, *, generation: int) -> None:
        self.generation = generation
        self._tables, self._block = tables, block
        self._changed = threading.Condition()
        self._ranks: set[int] | None = None
        self._shares: dict[int, tuple[dict[str, Any], Arrays]] = {}
        self._applied = -1
        self._abandoned = False
        self._broken: Exception | None = None

    def begin(self, ranks: Sequence[int]) -> None:
        """From here on these trainers belong to every step, until they leave."""
        with self._changed:
            self._ranks = set(ranks)
            self._changed.notify_all()

    def contribute(self, facts: dict[str, Any], arrays: Arrays) -> bool:
        """Bring one trainer's share of a step and wait until the step is applied. False: it is of another time."""
        with self._changed:
            if facts["generation"] != self.generation or self._abandoned:
                return False
            self._shares[facts["rank"]] = facts, arrays
            self._apply_if_complete()
            self._changed.wait_for(
                lambda: self._applied >= facts["step"] or self._abandoned or self._broken is not None
            )
            if self._broken is not None:
                raise self._broken
            return self._applied >= int(facts["step"])

    def has_applied(self, step: int, *, generation: int) -> bool:
        """Whether a step is applied, and nothing has been rolled back since."""
        with self._changed:
            return generation == self.generation and not self._abandoned and self._applied >= step

    def leave(self, rank: int, *, generation: int) -> None:
        """A trainer has no more data in this epoch."""
        with self._changed:
            if generation == self.generation and self._ranks is not None:
                self._ranks.discard(rank)
                self._apply_if_complete()

    def abandon(self) -> None:
        """Send away whoever waits."""
        with self._changed:
            self._abandoned = True
            self._changed.notify_all()

    def _apply_if_complete(self) -> None:
        if self._abandoned or self._ranks is None or not self._shares or not self._ranks <= self._shares.keys():
            return
        shares = [self._shares[rank] for rank in sorted(self._shares)]
        self._shares = {}
        try:
            self._apply(shares)
            self._applied = max(facts["step"] for facts, _ in shares)
        except Exception as error:
            self._broken = error
        self._changed.notify_all()

    def _apply(self, shares: list[tuple[dict[str, Any], Arrays]]) -> None:
        tick = max(facts["tick"] for facts, _ in shares)
        for number, table in enumerate(self._tables):
            parts = [
                Gradient(*(arrays[f"{number}.{column}"] for column in _COLUMNS))
                for _, arrays in shares
                if f"{number}.keys" in arrays
            ]
            parts = [part for part in parts if len(part.keys)]
            if parts:
                one = parts[0] if len(parts) == 1 else merged(parts, threads=1)
                table.push(one.keys, one.values, one.shows, one.clicks, one.slots, tick=tick)
        total = sum(facts["weight"] for facts, _ in shares)
        gradient = np.zeros_like(shares[0][1]["dense"])
        for facts, arrays in shares:
            gradient += arrays["dense"] * np.float32(facts["weight"] / total)
        with self._block.lock:
            self._block.learn(torch.from_numpy(gradient))


def share(gradients: Sequence[Gradient | None], dense: NDArray[np.float32]) -> Arrays:
    """A trainer's share of a step as it is sent: by number of the table."""
    out: Arrays = {"dense": dense}
    for number, one in enumerate(gradients):
        if one is not None:
            out |= {f"{number}.{column}": getattr(one, column) for column in _COLUMNS}
    return out
