"""Synchronous steps on a server: every trainer's share is awaited, merged in the order of ranks, and applied once.

So k trainers with batch b do what one with batch k·b does, and the same trainers with the same data give the same
bits again. A trainer without data leaves the round; the others go on. When the coordinator rolls back, trainers that
wait here are told that the generation is over.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np

from clickline import _native
from clickline.ps.protocol.framing import Arrays
from clickline.ps.protocol.pserver_messages import SyncRequest
from clickline.ps.server.dense_block import DenseBlock
from clickline.ps.sync_share import COLUMNS
from clickline.train.row_gradients import Gradient, merged


class SyncRounds:
    """The steps of one generation."""

    def __init__(self, tables: Sequence[_native.Table], block: DenseBlock, *, generation: int) -> None:
        self.generation = generation
        self._tables, self._block = tables, block
        self._changed = threading.Condition()
        self._ranks: set[int] | None = None
        self._shares: dict[int, tuple[SyncRequest, Arrays]] = {}
        self._applied = -1
        self._abandoned = False
        self._broken: Exception | None = None

    def begin(self, ranks: Sequence[int]) -> None:
        """From here on these trainers belong to every step, until they leave."""
        with self._changed:
            self._ranks = set(ranks)
            self._changed.notify_all()

    def contribute(self, request: SyncRequest, arrays: Arrays) -> bool:
        """Add one trainer's share of a step and wait until the step is applied. False: its generation is over."""
        with self._changed:
            if request.generation != self.generation or self._abandoned:
                return False
            self._shares[request.rank] = request, arrays
            self._apply_if_complete()
            self._changed.wait_for(lambda: self._applied >= request.step or self._abandoned or self._broken is not None)
            if self._broken is not None:
                raise self._broken
            return self._applied >= request.step

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
        """End the generation: every trainer that waits for a step is told so."""
        with self._changed:
            self._abandoned = True
            self._changed.notify_all()

    def _apply_if_complete(self) -> None:
        # Without shares there is no step: when the last trainer leaves the round, the set of awaited ranks is empty.
        if self._abandoned or self._ranks is None or not self._shares or not self._ranks <= self._shares.keys():
            return
        # Sums of floats depend on the order: by rank, the same shares give the same bits whoever came first.
        shares = [self._shares[rank] for rank in sorted(self._shares)]
        self._shares = {}
        try:
            self._apply(shares)
            self._applied = max(request.step for request, _ in shares)
        except Exception as error:
            # Kept for all trainers of the step: some tables may have learned from it and others not, so none may go on.
            self._broken = error
        self._changed.notify_all()

    def _apply(self, shares: list[tuple[SyncRequest, Arrays]]) -> None:
        tick = max(request.tick for request, _ in shares)
        for number, table in enumerate(self._tables):
            parts = [
                Gradient(*(arrays[f"{number}.{column}"] for column in COLUMNS))
                for _, arrays in shares
                if f"{number}.keys" in arrays
            ]
            parts = [part for part in parts if len(part.keys)]
            if parts:
                whole = parts[0] if len(parts) == 1 else merged(parts, threads=1)
                table.push(whole.keys, whole.values, whole.shows, whole.clicks, whole.slots, tick=tick)
        # The mean over all rows of the step: a trainer with a larger batch counts for more.
        total = sum(request.weight for request, _ in shares)
        gradient = np.zeros_like(shares[0][1]["dense"])
        for request, arrays in shares:
            gradient += arrays["dense"] * np.float32(request.weight / total)
        with self._block.lock:
            self._block.learn(gradient)
