"""geo: a trainer learns on copies of its own and exchanges with the servers what they have moved by.

Rows are copied when a trainer first meets them, with their optimizer state. Every `geo_steps` steps the differences
of all rows touched since, and of the dense parameters, go to the servers, which add them up; the sums come back. For
Adagrad and FTRL the state is a sum over rows of the log, so adding differences gives what one learner would have;
Adam's moments are no sums and stay at home. The dense difference is divided by the number of trainers, since all of
them move the same parameters; a row is mostly touched by few.
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
from clickline.ps.messages import pack, unpack
from clickline.ps.trainer.strategies.async_ import Async, Step
from clickline.train.dense_optimizer import dense_optimizer
from clickline.train.learner import weight_of
from clickline.train.sparse import Gradient, SparseSide, merged
from clickline.train.sparse_tables import build_tables, cuts_by_owner, settings_of

_SUMS = ("sgd", "adagrad", "ftrl")
"""Rules whose state is a sum, so that differences of it can be added."""


class Geo(Async):
    """Local steps, global differences."""

    def __init__(self, **named: Any) -> None:
        super().__init__(**named)
        network = self.network
        self._optimizer = dense_optimizer(network.model, self.job.train.optimizer)
        self._start_over()

    def _start_over(self) -> None:
        job, network = self.job, self.network
        self._local = self._build()
        self._base = self._build()
        """What the servers are known to have."""
        self._sparse = SparseSide(
            embeddings=network.model.embeddings,
            schema=network.schema,
            job=job,
            threads=1,
            elsewhere=self._local,
        )
        self._touched: dict[str, list[Gradient]] = {name: [] for name in self._local}
        self._anchor = network.flat.values.clone()
        self._since = 0
        self._done = 0

    def begin(self, *, generation: int, start: int, warm: bool) -> None:
        """A new generation has loaded other rows; a new epoch has restarted those that the job restarts."""
        same = generation == self.generation
        super().begin(generation=generation, start=start, warm=warm)
        if not same:
            self._start_over()
            return
        for name, embedding in self.network.model.tables.items():
            if not settings_of(embedding, self.job.tables).restart_epochs:
                continue
            if warm:  # only the servers know the values from which rows restart: they are fetched again
                self._local[name], self._base[name] = self._build()[name], self._build()[name]
            else:
                self._local[name].reset()
                self._base[name].reset()

    def _build(self) -> dict[str, _native.Table]:
        model = self.network.model
        slots = self.network.schema.slots
        return build_tables(embeddings=model.embeddings, tables=self.job.tables, slots=slots, seed=self.job.seed)

    def refresh(self) -> None:
        super().refresh()
        self._anchor = self.network.flat.values.clone()

    def steps(self, batches: Iterator[tuple[Batch, int]], *, lease: int) -> Generator[Step, None, None]:
        self.lease = lease
        sparse = self._sparse
        for batch, done in batches:
            plans = sparse.plan(batch)
            for name, embedding in sparse.embeddings.items():
                self._copy(embedding.table, plans[name].unique, plans[name].slots)
            pulled = sparse.pull(plans, rows=len(batch), training=True)
            learned = self._learn(batch, pulled)
            self._optimizer.step()
            for name, one in sparse.gradients(pulled, weight=weight_of(batch)).items():
                self._local[name].push(one.keys, one.values, one.shows, one.clicks, one.slots, tick=self.tick)
                self._touched[name].append(replace(one, values=one.shows.reshape(-1, 1)))  # the values are learned
            self._since += 1
            self._done = done
            if self._since >= self.job.cluster.agree.geo_steps:
                self.flush()
            yield batch, done, learned

    def flush(self) -> None:
        """Exchange differences, if there are any."""
        if self._since == 0:
            return
        servers = self.lines.servers
        for number, (name, parts) in enumerate(self._touched.items()):
            if parts:
                self._exchange(number, name, _distinct(parts))
                self._touched[name] = []
        flat = self.network.flat.values
        difference = (flat - self._anchor) / self.job.cluster.trainers
        moved = [{"difference": part} for part in self.network.slices(difference, servers)]
        fresh = self.lines.dense(moved, lease=self.lease, done=self._done)
        self.network.take(fresh)
        self._anchor = flat.clone()
        self._since = 0

    def end_piece(self) -> None:
        """Differences wait for their time: pieces may be much shorter than `geo_steps`."""

    @property
    def settled(self) -> bool:
        return self._since == 0

    def abandon(self) -> None:
        super().abandon()
        self._start_over()

    def _copy(self, table: str, keys: NDArray[np.uint64], slots: NDArray[np.uint16]) -> None:
        """Fetch rows that this trainer meets for the first time."""
        unknown = self._local[table].last_seen(keys) < 0
        if not unknown.any():
            return
        new, columns = keys[unknown], slots[unknown]
        rows = self._ask("rows", self.tables[table].number, {"keys": new}, once=False)
        for copy in (self._local, self._base):
            copy[table].assign_whole(new, rows, columns, tick=self.tick)

    def _exchange(self, number: int, name: str, touched: Gradient) -> None:
        local, base, keys = self._local[name], self._base[name], touched.keys
        difference = local.read_whole(keys) - base.read_whole(keys)
        if local.optimizer not in _SUMS:
            difference[:, local.dim :] = 0
        arrays = {
            "keys": keys,
            "rows": difference,
            "slots": touched.slots,
            "shows": touched.shows,
            "clicks": touched.clicks,
        }
        fresh = self._ask("geo", self.tables[name].number, arrays, once=True)
        if local.optimizer not in _SUMS:
            fresh[:, local.dim :] = local.read_whole(keys)[:, local.dim :]
        for copy in (local, base):
            copy.assign_whole(keys, fresh, touched.slots, tick=self.tick)

    def _ask(self, op: str, table: int, arrays: dict[str, NDArray[Any]], *, once: bool) -> NDArray[np.float32]:
        """Whole rows from the servers that own them, in the order of the keys."""
        servers, keys = self.lines.servers, arrays["keys"]
        cuts = cuts_by_owner(keys, servers)
        wire = self.lines.wire
        facts = {"table": table, "tick": self.tick, "lease": self.lease, "done": self._done, "wire": wire}
        parts = [{name: array[a:b] for name, array in arrays.items()} for a, b in pairwise(cuts)]
        bodies = [pack(facts, part, wire=wire, halved=("rows",)) for part in parts]
        replies = self.lines.pushing.call(op, bodies, once=once)
        return np.concatenate([unpack(reply)[1]["rows"] for reply in replies])


def _distinct(parts: list[Gradient]) -> Gradient:
    return parts[0] if len(parts) == 1 else merged(parts, threads=1)
