"""half_async: gradients of `merge` batches are merged into one, which is sent and waited for."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import torch

from clickline.data.batch import Batch
from clickline.ps.trainer.strategies.gradient_push import GradientPush
from clickline.ps.trainer.strategies.row_prefetch import PulledBatch, RowPrefetch, Versions
from clickline.ps.trainer.strategies.trainer_strategy import Step, TrainerStrategy
from clickline.train.learner import weight_of
from clickline.train.row_gradients import Gradient, merged


class HalfAsync(TrainerStrategy):
    """Merge, send, wait."""

    def __init__(self, **named: Any) -> None:
        super().__init__(**named)
        cluster = self.job.cluster
        self._prefetch = RowPrefetch(replica=self.replica, tables=self.tables, depth=cluster.agree.prefetch)
        self._push = GradientPush(cluster=cluster, replica=self.replica, pservers=self.pservers, tables=self.tables)
        self._held: list[dict[str, Gradient]] = []
        self._dense = torch.zeros_like(self.replica.flat.values)
        self._weight = 0.0
        self._done = 0
        self._versions: Versions = {}
        """Of the first batch that is held: the merged gradient is as stale as its stalest part."""

    def begin(self, *, generation: int, start: int, warm: bool) -> None:
        super().begin(generation=generation, start=start, warm=warm)
        self._push.forget_fresh()

    def refresh(self) -> None:
        self._push.forget_fresh()
        super().refresh()

    def steps(self, batches: Iterator[tuple[Batch, int]], *, lease: int) -> Generator[Step, None, None]:
        self.lease = lease
        for pulled in self._prefetch.pulled(batches):
            self._push.take_fresh()
            learned = self.learn(pulled.batch, pulled.rows)
            self._hold(pulled)
            yield pulled.batch, pulled.done, learned

    def _hold(self, pulled: PulledBatch) -> None:
        weight = weight_of(pulled.batch)
        if not self._held:
            self._versions = pulled.versions
        self._held.append(self.replica.sparse.gradients(pulled.rows, weight=weight))
        # A batch's dense gradient is a mean over its rows, so batches of different sizes count by their weight.
        self._dense.add_(self.replica.flat.gradient, alpha=weight)
        self._weight += weight
        self._done = pulled.done
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
        self._push.push(whole, dense, tick=self.tick, lease=self.lease, done=self._done, versions=self._versions)
        self._dense.zero_()
        self._weight = 0.0

    def abandon(self) -> None:
        self._held, self._weight = [], 0.0
        self._dense.zero_()

    def close(self) -> None:
        super().close()
        self._prefetch.close()
