"""geo: a trainer learns on copies of its own and exchanges with the servers what they have moved by.

Rows are copied when a trainer first meets them, with their optimizer state. Every `geo_steps` steps the differences
of all rows touched since, and of the dense parameters, go to the servers, which add them up; the sums come back. For
Adagrad and FTRL the state is a sum over rows of the log, so adding differences gives what one learner would have;
Adam's moments are not sums and stay with the trainer. The dense difference is divided by the number of trainers, since
all of them move the same parameters; a row is mostly touched by few.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clickline import _native
from clickline.data.batch import Batch
from clickline.ps.protocol.framing import Arrays
from clickline.ps.protocol.pserver_messages import (
    GeoReply,
    GeoRequest,
    RowsReply,
    RowsRequest,
    ServerReply,
    ServerRequest,
)
from clickline.ps.trainer.strategies.trainer_strategy import Step, TrainerStrategy
from clickline.train.dense_optimizer import dense_optimizer
from clickline.train.learner import weight_of
from clickline.train.row_gradients import Gradient, merged
from clickline.train.sparse import SparseSide
from clickline.train.sparse_tables import build_tables, cuts_by_owner, settings_of

_SUMS = ("sgd", "adagrad", "ftrl")
"""Rules whose state is a sum, so that differences of it can be added."""


class Geo(TrainerStrategy):
    """Local steps, global differences."""

    def __init__(self, **named: Any) -> None:
        super().__init__(**named)
        self._optimizer = dense_optimizer(self.replica.model, self.job.train.optimizer)
        self._start_over()

    def _start_over(self) -> None:
        job, replica = self.job, self.replica
        self._local = self._build()
        self._base = self._build()
        """What the servers are known to have."""
        self._sparse = SparseSide(
            embeddings=replica.model.embeddings,
            schema=replica.schema,
            job=job,
            threads=1,
            elsewhere=self._local,
        )
        self._touched: dict[str, list[Gradient]] = {name: [] for name in self._local}
        self._anchor = replica.flat.values.clone()
        self._since = 0
        self._done = 0

    def begin(self, *, generation: int, start: int, warm: bool) -> None:
        """A new generation has loaded other rows; a new epoch has restarted those that the job restarts."""
        same = generation == self.generation
        super().begin(generation=generation, start=start, warm=warm)
        if not same:
            self._start_over()
            return
        for name, embedding in self.replica.model.tables.items():
            if not settings_of(embedding, self.job.tables).restart_epochs:
                continue
            if warm:  # only the servers know the values from which rows restart: they are fetched again
                self._local[name], self._base[name] = self._build()[name], self._build()[name]
            else:
                self._local[name].reset()
                self._base[name].reset()

    def _build(self) -> dict[str, _native.Table]:
        model = self.replica.model
        slots = self.replica.schema.slots
        return build_tables(embeddings=model.embeddings, tables=self.job.tables, slots=slots, seed=self.job.seed)

    def refresh(self) -> None:
        super().refresh()
        self._anchor = self.replica.flat.values.clone()

    def steps(self, batches: Iterator[tuple[Batch, int]], *, lease: int) -> Generator[Step, None, None]:
        self.lease = lease
        sparse = self._sparse
        for batch, done in batches:
            plans = sparse.plan(batch)
            for name, embedding in sparse.embeddings.items():
                self._copy(embedding.table, plans[name].unique, plans[name].slots)
            pulled = sparse.pull(plans, rows=len(batch), training=True)
            learned = self.learn(batch, pulled)
            self._optimizer.step()
            for name, grad in sparse.gradients(pulled, weight=weight_of(batch)).items():
                self._local[name].push(grad.keys, grad.values, grad.shows, grad.clicks, grad.slots, tick=self.tick)
                # Only keys and counts are kept for the exchange: the values have been learned from.
                self._touched[name].append(replace(grad, values=grad.shows.reshape(-1, 1)))
            self._since += 1
            self._done = done
            if self._since >= self.job.cluster.agree.geo_steps:
                self.flush()
            yield batch, done, learned

    def flush(self) -> None:
        """Exchange differences, if there are any."""
        if self._since == 0:
            return
        servers = self.pservers.servers
        for number, (name, parts) in enumerate(self._touched.items()):
            if parts:
                self._exchange(number, name, _distinct(parts))
                self._touched[name] = []
        flat = self.replica.flat.values
        difference = (flat - self._anchor) / self.job.cluster.trainers
        moved = [{"difference": part} for part in self.replica.slices(difference, servers)]
        # After the rows: with this request a server counts everything up to `done` as arrived.
        fresh = self.pservers.dense(moved, lease=self.lease, done=self._done)
        self.replica.take(fresh)
        self._anchor = flat.clone()
        self._since = 0

    def end_piece(self) -> None:
        """Differences wait for their time: pieces may be much shorter than `geo_steps`."""

    @property
    def settled(self) -> bool:
        return self._since == 0

    def abandon(self) -> None:
        self._start_over()

    def _copy(self, table: str, keys: NDArray[np.uint64], slots: NDArray[np.uint16]) -> None:
        """Copy rows that this trainer meets for the first time from the servers."""
        # -1 for a key of which the table has no row.
        unknown = self._local[table].last_seen(keys) < 0
        if not unknown.any():
            return
        new, columns = keys[unknown], slots[unknown]
        request = RowsRequest(table=self.tables[table].number, wire=self.pservers.wire)
        rows = self._whole_rows(request, RowsReply, {"keys": new}, once=False)
        for copy in (self._local, self._base):
            copy[table].assign_whole(new, rows, columns, tick=self.tick)

    def _exchange(self, number: int, name: str, touched: Gradient) -> None:
        local, base, keys = self._local[name], self._base[name], touched.keys
        difference = local.read_whole(keys) - base.read_whole(keys)
        # A row is its weights, then its optimizer state: state that is not a sum is neither sent nor taken.
        if local.optimizer not in _SUMS:
            difference[:, local.dim :] = 0
        arrays = {
            "keys": keys,
            "rows": difference,
            "slots": touched.slots,
            "shows": touched.shows,
            "clicks": touched.clicks,
        }
        request = GeoRequest(
            table=self.tables[name].number,
            tick=self.tick,
            lease=self.lease,
            done=self._done,
            wire=self.pservers.wire,
        )
        fresh = self._whole_rows(request, GeoReply, arrays, once=True)
        if local.optimizer not in _SUMS:
            fresh[:, local.dim :] = local.read_whole(keys)[:, local.dim :]
        for copy in (local, base):
            copy.assign_whole(keys, fresh, touched.slots, tick=self.tick)

    def _whole_rows(
        self, request: ServerRequest, reply: type[ServerReply], arrays: Arrays, *, once: bool
    ) -> NDArray[np.float32]:
        """Whole rows from the servers that own them, in the order of the keys."""
        cuts = cuts_by_owner(arrays["keys"], self.pservers.servers)
        parts = [{name: array[a:b] for name, array in arrays.items()} for a, b in pairwise(cuts)]
        replies = self.pservers.call(request, reply, parts, once=once, halved=("rows",))
        return np.concatenate([answered["rows"] for _, answered in replies])


def _distinct(parts: list[Gradient]) -> Gradient:
    return parts[0] if len(parts) == 1 else merged(parts, threads=1)
