"""Tables whose rows are divided among ranks: each rank owns a range of the buckets of every table.

A batch's distinct keys are in the order of buckets, so each owner's share is one slice. Owners answer pulls from the
table they hold, and learn from what all ranks push at once: gradients of one key are added in the order of ranks,
so a repeated run has the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from clickline import _native
from clickline.collective.rank_exchange import Integers, RankExchange
from clickline.train.row_gradients import Floats, Gradient, merged
from clickline.train.sparse_tables import cuts_by_owner

_ABSENT = -1


def shares(keys: NDArray[np.uint64], owners: int) -> list[int]:
    """The number of keys of each owner; the keys are in the order of buckets."""
    return [end - begin for begin, end in pairwise(cuts_by_owner(keys, owners))]


class OwnedTable:
    """One table of all ranks: pulls and pushes any keys. All ranks call it together, in the same order.

    `tables` holds this rank's part under `name`; it is looked up at each use, for loading a checkpoint replaces it.
    """

    def __init__(self, *, name: str, tables: Mapping[str, _native.Table], exchange: RankExchange) -> None:
        self._name = name
        self._tables = tables
        self._exchange = exchange
        self.tick = 0
        """The newest tick that any rank has pushed."""

    def pull(
        self,
        keys: NDArray[np.uint64],
        out: Floats,
        *,
        training: bool,
        slots: NDArray[np.uint16] | None = None,
        threads: int = 1,
    ) -> None:
        exchange, table = self._exchange, self._tables[self._name]
        slots = np.zeros(len(keys), np.uint16) if slots is None else slots
        # 1. Every rank tells each owner how many keys it wants, then sends them.
        send = shares(keys, exchange.size)
        asked = exchange.swap_numbers(np.array(send).reshape(exchange.size, 1))[:, 0]
        received = self._swap([keys, slots], send=send, receive=asked)
        # 2. As an owner, this rank looks up the keys of all ranks, in one call of the table.
        their_keys = np.concatenate([part[0].view(np.uint64) for part in received])
        their_slots = np.concatenate([part[1].view(np.uint16) for part in received])
        rows = np.empty((len(their_keys), table.dim), np.float32)
        table.pull(their_keys, rows, training=training, slots=their_slots, threads=threads)
        # 3. Rows travel back the way the keys came, so they arrive in the order of `keys`.
        exchange.swap(torch.from_numpy(out), torch.from_numpy(rows), receive=send, send=asked.tolist())

    def push(
        self,
        keys: NDArray[np.uint64],
        grads: Floats,
        shows: Floats,
        clicks: Floats,
        slots: NDArray[np.uint16],
        *,
        tick: int,
        scale: float = 1.0,
        threads: int = 1,
    ) -> None:
        send = shares(keys, self._exchange.size)
        counts = self._counts(send, tick)
        columns: list[NDArray[Any]] = [keys, slots, shows, clicks, grads]
        # A count of -1 is a rank that abstains: it takes part in the exchange, but sends no keys.
        received = self._swap(columns, send=send, receive=np.maximum(counts, 0))
        self._learn(received, scale=scale, threads=threads)

    def abstain(self, *, tick: int, threads: int = 1) -> None:
        """Take part in a push without a gradient: for a rank whose data has ended, or whose model ignored the table.

        If no rank has a gradient, there is no push.
        """
        nothing = [0] * self._exchange.size
        # -1 keys, not 0: a rank without a gradient differs from one whose gradient has no key of this owner.
        counts = self._counts([_ABSENT] * self._exchange.size, tick)
        if (counts == _ABSENT).all():
            return
        none = np.empty(0, np.float32)
        columns: list[NDArray[Any]] = [np.empty(0, np.uint64), np.empty(0, np.uint16), none, none, none]
        received = self._swap(columns, send=nothing, receive=np.maximum(counts, 0))
        self._learn(received, scale=1.0, threads=threads)

    def _counts(self, send: list[int], tick: int) -> Integers:
        """How many keys each rank is about to push here; agrees on the newest tick on the way."""
        own = np.array([[count, tick] for count in send], np.int64)
        all_ranks = self._exchange.swap_numbers(own)
        # All owners stamp the rows of a step with one tick, as a single process does: eviction compares ticks.
        self.tick = max(self.tick, int(all_ranks[:, 1].max()))
        return all_ranks[:, 0]

    def _swap(
        self, columns: list[NDArray[Any]], *, send: list[int], receive: Integers
    ) -> list[list[NDArray[np.uint8]]]:
        """Send each owner its slice of all columns in one message; return the columns of each rank, as bytes."""
        # One message per owner: its part of the keys, then of the slots, and so on, as bytes.
        widths = [self._width(number) for number in range(len(columns))]
        flat = [column.reshape(-1).view(np.uint8) for column in columns]
        parts, first = [], 0
        for count in send:
            parts += [one[first * w : (first + count) * w] for one, w in zip(flat, widths, strict=True)]
            first += count
        row = sum(widths)
        out = np.empty(int(receive.sum()) * row, np.uint8)
        self._exchange.swap(
            torch.from_numpy(out),
            torch.from_numpy(np.concatenate(parts)),
            receive=(receive * row).tolist(),
            send=[count * row for count in send],
        )
        # Copies: a view of another width must begin where its items may begin.
        messages = np.split(out, np.cumsum(receive * row)[:-1])
        edges = np.cumsum(widths)[:-1]
        return [
            [column.copy() for column in np.split(message, edges * count)]
            for message, count in zip(messages, receive.tolist(), strict=True)
        ]

    def _width(self, column: int) -> int:
        """Bytes per key of a message's columns: key, slot, shows, clicks, gradient."""
        return (8, 2, 4, 4, 4 * self._tables[self._name].dim)[column]

    def _learn(self, received: list[list[NDArray[np.uint8]]], *, scale: float, threads: int) -> None:
        table = self._tables[self._name]
        parts = [
            Gradient(
                keys=keys.view(np.uint64),
                slots=slots.view(np.uint16),
                shows=shows.view(np.float32),
                clicks=clicks.view(np.float32),
                values=values.view(np.float32).reshape(-1, table.dim),
            )
            for keys, slots, shows, clicks, values in received
        ]
        with_keys = [part for part in parts if len(part.keys)]
        one = merged(with_keys, threads=threads) if len(with_keys) > 1 else (with_keys or parts)[0]
        # Even without a key: a push is one step of the optimizer, and all owners must take the same number of steps.
        table.push(one.keys, one.values, one.shows, one.clicks, one.slots, tick=self.tick, scale=scale, threads=threads)
