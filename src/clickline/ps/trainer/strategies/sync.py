"""sync: every step waits until the servers have merged all trainers' shares and applied them.

server/sync_rounds.py is the servers' side.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from itertools import pairwise

import numpy as np
import torch

from clickline.data.batch import Batch
from clickline.ps.protocol.pserver_messages import LeaveRoundReply, LeaveRoundRequest, SyncReply, SyncRequest
from clickline.ps.protocol.refusals import ErrorCode
from clickline.ps.sync_share import share
from clickline.ps.trainer.strategies.trainer_strategy import GenerationOverError, Step, TrainerStrategy
from clickline.train.learner import weight_of
from clickline.train.row_gradients import Gradient
from clickline.train.sparse_tables import cuts_by_owner

_DEADLINE = 24 * 3600.0
"""Seconds for a step: other trainers may be slow, or a server may be loading; the coordinator knows who is dead."""


class Sync(TrainerStrategy):
    """Lockstep: pull, compute, send one's share, wait for the step."""

    def begin(self, *, generation: int, start: int, warm: bool) -> None:
        super().begin(generation=generation, start=start, warm=warm)
        self.step = start

    def steps(self, batches: Iterator[tuple[Batch, int]], *, lease: int) -> Generator[Step, None, None]:
        self.lease = lease
        for batch, done in batches:
            pulled = self.replica.pull(batch)
            # Random numbers, of dropout say, follow from the step: they are the same when the step is taken again.
            draw = np.random.SeedSequence((self.job.seed, self.rank, self.step)).generate_state(1)[0]
            torch.manual_seed(int(draw))
            learned = self.replica.compute(batch, pulled, step=self.step)
            self.tick = self.step if batch.times is None else max(int(batch.times.max()), self.tick)
            weight = weight_of(batch)
            self._share(self.replica.sparse.gradients(pulled, weight=weight), weight)
            self.step += 1
            yield batch, done, learned

    def _share(self, gradients: dict[str, Gradient], weight: float) -> None:
        servers = self.pservers.servers
        dense = self.replica.slices(self.replica.flat.gradient, servers)
        split = {name: parts_of(gradient, servers) for name, gradient in gradients.items()}
        request = SyncRequest(
            generation=self.generation,
            rank=self.rank,
            step=self.step,
            weight=weight,
            tick=self.tick,
            wire=self.pservers.wire,
        )
        parts = [
            share([split[name][server] if name in split else None for name in self.tables], dense[server])
            for server in range(servers)
        ]
        halved = {name for part in parts for name in part if name == "dense" or name.endswith(".values")}
        replies = self.pservers.call(request, SyncReply, parts, once=True, halved=sorted(halved), deadline=_DEADLINE)
        # One refusal voids the step: some servers may have applied it and others not, and all load the last checkpoint.
        for reply, _ in replies:
            if reply.refusal is not None and reply.refusal.code == ErrorCode.GENERATION_OVER:
                raise GenerationOverError(reply.refusal.message)
        self.replica.take([arrays["values"] for _, arrays in replies])

    def leave_round(self, *, generation: int) -> None:
        self.pservers.call(LeaveRoundRequest(rank=self.rank, generation=generation), LeaveRoundReply, once=True)

    def flush(self) -> None:
        """Nothing is held back: a step is over when all servers have applied it."""

    def abandon(self) -> None:
        """Nothing is under way between two steps."""


def parts_of(gradient: Gradient, servers: int) -> list[Gradient]:
    """A gradient as each server's share; keys lie in the order of buckets, so these are slices."""
    g, cuts = gradient, cuts_by_owner(gradient.keys, servers)
    return [Gradient(g.keys[a:b], g.slots[a:b], g.shows[a:b], g.clicks[a:b], g.values[a:b]) for a, b in pairwise(cuts)]
