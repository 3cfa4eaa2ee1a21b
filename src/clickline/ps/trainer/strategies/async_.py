"""The ways of agreeing: what a trainer does between computing a gradient and having new parameters.

A way turns batches into steps.

async       pull ahead, compute, send; nobody waits, and at most `prefetch` + `send_queue` batches are under way
half_async  gradients of several batches are merged, sent, and waited for
sync        every step waits until the servers have merged all trainers' gradients: see lockstep.py
geo         local tables and parameters, differences exchanged now and then: see copies.py
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import torch
from numpy.typing import NDArray

from clickline.config import Job
from clickline.data.batch import Batch
from clickline.ps.trainer.model_replica import Network, Remote
from clickline.ps.trainer.pserver_client import Lines
from clickline.train.learner import Learned, weight_of
from clickline.train.sparse import Gradient, Pulled, merged

Step = tuple[Batch, int, Learned]
"""A batch, how many rows of its piece are done with it, and what was learned."""


class Async:
    """Also the base of the other ways."""

    def __init__(self, *, job: Job, network: Network, lines: Lines, tables: dict[str, Remote], rank: int) -> None:
        self.job, self.network, self.lines, self.tables, self.rank = job, network, lines, tables, rank
        self.step = 0
        self.tick = 0
        self.generation = 0
        self.lease = 0
        self._puller = ThreadPoolExecutor(1, thread_name_prefix="clickline-pull")
        self._pusher = ThreadPoolExecutor(1, thread_name_prefix="clickline-push")
        self._sending: deque[Future[None]] = deque()
        self._fresh: list[NDArray[Any]] | None = None
        self._pushed = 0

    def begin(self, *, generation: int, start: int, warm: bool) -> None:
        """A new epoch, or everybody starts anew from a checkpoint, at step `start` of all trainers together.

        `warm`: the run began with given weights, from which the servers restart rows.
        """
        self.generation = generation
        self.step = max(self.step, start // self.job.cluster.trainers)  # rows of a run before have its ticks
        self._fresh = None

    def refresh(self) -> None:
        """Parameters as the servers have them now."""
        self._fresh = None
        self.network.take(self.lines.dense())

    def steps(self, batches: Iterator[tuple[Batch, int]], *, lease: int) -> Generator[Step, None, None]:
        """Learn from each batch in turn."""
        self.lease = lease
        for batch, done, pulled, versions in self._pulled(batches):
            fresh, self._fresh = self._fresh, None
            if fresh is not None:
                self.network.take(fresh)
            learned = self._learn(batch, pulled)
            self._after(batch, done, pulled, versions)
            yield batch, done, learned

    def flush(self) -> None:
        """Wait until everything sent has arrived."""
        while self._sending:
            self._sending.popleft().result()

    def end_piece(self) -> None:
        """A piece is done; its last rows need not wait for those of the next."""
        self.flush()

    @property
    def settled(self) -> bool:
        """Whether everything learned so far has arrived at the servers."""
        return not self._sending

    def abandon(self) -> None:
        """Forget what is under way."""
        for future in self._sending:
            future.cancel()
        self._sending.clear()

    def close(self) -> None:
        self.abandon()
        self._puller.shutdown(wait=False, cancel_futures=True)
        self._pusher.shutdown(wait=False, cancel_futures=True)

    @property
    def queue(self) -> int:
        """Batches whose gradients are under way."""
        return len(self._sending)

    def _pulled(
        self, batches: Iterator[tuple[Batch, int]]
    ) -> Iterator[tuple[Batch, int, dict[str, Pulled], dict[str, list[int]]]]:
        """Batches with their rows, which are pulled ahead."""
        ahead: deque[tuple[Batch, int, Future[tuple[dict[str, Pulled], dict[str, list[int]]]]]] = deque()
        try:
            for batch, done in batches:
                ahead.append((batch, done, self._puller.submit(self._pull, batch)))
                if len(ahead) > self.job.cluster.agree.prefetch:
                    first, rows, future = ahead.popleft()
                    yield first, rows, *future.result()
            while ahead:
                first, rows, future = ahead.popleft()
                yield first, rows, *future.result()
        finally:
            for _, _, future in ahead:
                future.cancel()

    def _pull(self, batch: Batch) -> tuple[dict[str, Pulled], dict[str, list[int]]]:
        pulled = self.network.pull(batch)
        return pulled, {name: table.versions for name, table in self.tables.items()}

    def _learn(self, batch: Batch, pulled: dict[str, Pulled]) -> Learned:
        learned = self.network.compute(batch, pulled, step=self.step)
        self.step += 1
        trainers = self.job.cluster.trainers
        self.tick = self.step * trainers if batch.times is None else max(int(batch.times.max()), self.tick)
        return learned

    def _after(self, batch: Batch, done: int, pulled: dict[str, Pulled], versions: dict[str, list[int]]) -> None:
        dense = self.network.flat.gradient.clone()
        self._sending.append(
            self._pusher.submit(self._send, pulled, weight_of(batch), dense, self.tick, self.lease, done, versions)
        )
        while len(self._sending) > self.job.cluster.agree.send_queue:
            self._sending.popleft().result()

    def _send(
        self,
        pulled: dict[str, Pulled],
        weight: float,
        dense: torch.Tensor,
        tick: int,
        lease: int,
        done: int,
        versions: dict[str, list[int]],
    ) -> None:
        gradients = self.network.sparse.gradients(pulled, weight=weight)
        self._push(gradients, dense, tick=tick, lease=lease, done=done, versions=versions)

    def _push(
        self,
        gradients: dict[str, Gradient],
        dense: torch.Tensor,
        *,
        tick: int,
        lease: int,
        done: int,
        versions: dict[str, list[int]],
    ) -> None:
        agree, lines = self.job.cluster.agree, self.lines
        for name, one in gradients.items():
            lines.pushing.push(
                self.tables[name].number,
                one.keys,
                one.values,
                one.shows,
                one.clicks,
                one.slots,
                tick=tick,
                based_on=versions.get(name, []),
                max_staleness=agree.max_staleness,
                lease=lease,
                rows_done=done,
                wire=lines.wire,
            )
        self._pushed += 1
        want = "values" if self._pushed % agree.dense_every == 0 else ""
        parts = [{"gradient": part} for part in self.network.slices(dense, lines.servers)]
        fresh = lines.dense(parts, want=want, lease=lease, done=done)
        if fresh:
            self._fresh = fresh


class HalfAsync(Async):
    """Merge, send, wait."""

    def __init__(self, **named: Any) -> None:
        super().__init__(**named)
        self._held: list[dict[str, Gradient]] = []
        self._dense = torch.zeros_like(self.network.flat.values)
        self._weight = 0.0
        self._done = 0
        self._versions: dict[str, list[int]] = {}

    def _after(self, batch: Batch, done: int, pulled: dict[str, Pulled], versions: dict[str, list[int]]) -> None:
        weight = weight_of(batch)
        self._versions = self._versions if self._held else versions
        self._held.append(self.network.sparse.gradients(pulled, weight=weight))
        self._dense.add_(self.network.flat.gradient, alpha=weight)
        self._weight += weight
        self._done = done
        if len(self._held) >= self.job.cluster.agree.merge:
            self.flush()

    def flush(self) -> None:
        if not self._held:
            return
        names = {name: None for held in self._held for name in held}
        parts = {name: [held[name] for held in self._held if name in held] for name in names}
        whole = {name: some[0] if len(some) == 1 else merged(some, threads=1) for name, some in parts.items()}
        self._held = []
        dense = self._dense / max(self._weight, 1e-12)
        self._push(whole, dense, tick=self.tick, lease=self.lease, done=self._done, versions=self._versions)
        self._dense.zero_()
        self._weight = 0.0

    def abandon(self) -> None:
        super().abandon()
        self._held, self._weight = [], 0.0
        self._dense.zero_()
