"""async: rows are pulled ahead and gradients sent behind, so a trainer waits for nobody.

At most `prefetch` + `send_queue` batches are under way: that bounds how stale a gradient is when it arrives.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import torch

from clickline.data.batch import Batch
from clickline.ps.trainer.strategies.gradient_push import GradientPush
from clickline.ps.trainer.strategies.row_prefetch import PulledBatch, RowPrefetch
from clickline.ps.trainer.strategies.trainer_strategy import Step, TrainerStrategy
from clickline.train.learner import weight_of


class Async(TrainerStrategy):
    """Pull ahead, compute, send."""

    def __init__(self, **named: Any) -> None:
        super().__init__(**named)
        cluster = self.job.cluster
        self._prefetch = RowPrefetch(replica=self.replica, tables=self.tables, depth=cluster.agree.prefetch)
        self._push = GradientPush(cluster=cluster, replica=self.replica, pservers=self.pservers, tables=self.tables)
        self._pusher = ThreadPoolExecutor(1, thread_name_prefix="clickline-push")
        self._sending: deque[Future[None]] = deque()

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
            # The next batch overwrites the replica's gradient while this one is being sent.
            dense = self.replica.flat.gradient.clone()
            self._sending.append(self._pusher.submit(self._send, pulled, dense, tick=self.tick, lease=lease))
            # Back-pressure: a trainer that computes faster than its gradients are sent waits here. `result` also raises
            # what a push has raised.
            while len(self._sending) > self.job.cluster.agree.send_queue:
                self._sending.popleft().result()
            yield pulled.batch, pulled.done, learned

    def _send(self, pulled: PulledBatch, dense: torch.Tensor, *, tick: int, lease: int) -> None:
        gradients = self.replica.sparse.gradients(pulled.rows, weight=weight_of(pulled.batch))
        self._push.push(gradients, dense, tick=tick, lease=lease, done=pulled.done, versions=pulled.versions)

    def flush(self) -> None:
        while self._sending:
            self._sending.popleft().result()

    @property
    def settled(self) -> bool:
        return not self._sending

    @property
    def queue(self) -> int:
        return len(self._sending)

    def abandon(self) -> None:
        for future in self._sending:
            future.cancel()
        self._sending.clear()

    def close(self) -> None:
        super().close()
        self._prefetch.close()
        self._pusher.shutdown(wait=False, cancel_futures=True)
