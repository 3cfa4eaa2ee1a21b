"""Synchronous training, the trainer's side: every step waits until the servers have merged all shares and applied them.

rounds.py is the servers' side.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from itertools import pairwise

import numpy as np
import torch

from clickline.data.batch import Batch
from clickline.ps.messages import pack, unpack
from clickline.ps.server.sync_rounds import share
from clickline.ps.trainer.strategies.async_ import Async, Step
from clickline.train.learner import weight_of
from clickline.train.sparse import Gradient
from clickline.train.sparse_tables import cuts_by_owner


class GenerationOver(Exception):
    """The servers have gone back to a checkpoint: what this trainer is doing is void."""


class Sync(Async):
    """Lockstep: pull, compute, bring one's share, wait for the step."""

    def begin(self, *, generation: int, start: int, warm: bool) -> None:
        super().begin(generation=generation, start=start, warm=warm)
        self.step = start

    def steps(self, batches: Iterator[tuple[Batch, int]], *, lease: int) -> Generator[Step, None, None]:
        self.lease = lease
        for batch, done in batches:
            pulled, _ = self._pull(batch)
            # What is drawn, for dropout say, follows from the step: it is the same when the step is taken again.
            draw = np.random.SeedSequence((self.job.seed, self.rank, self.step)).generate_state(1)[0]
            torch.manual_seed(int(draw))
            learned = self.network.compute(batch, pulled, step=self.step)
            self.tick = self.step if batch.times is None else max(int(batch.times.max()), self.tick)
            weight = weight_of(batch)
            self._share(self.network.sparse.gradients(pulled, weight=weight), weight)
            self.step += 1
            yield batch, done, learned

    def _share(self, gradients: dict[str, Gradient], weight: float) -> None:
        servers = self.lines.servers
        dense = self.network.slices(self.network.flat.gradient, servers)
        split = {name: parts_of(one, servers) for name, one in gradients.items()}
        facts = {
            "generation": self.generation,
            "rank": self.rank,
            "step": self.step,
            "weight": weight,
            "tick": self.tick,
            "wire": self.lines.wire,
        }
        bodies = []
        for server in range(servers):
            own = [split[name][server] if name in split else None for name in self.tables]
            arrays = share(own, dense[server])
            halved = [name for name in arrays if name == "dense" or name.endswith(".values")]
            bodies.append(pack(facts, arrays, wire=self.lines.wire, halved=halved))
        deadline = 24 * 3600.0  # others may be slow, or a server may be loading; the coordinator knows who is dead
        replies = [unpack(reply) for reply in self.lines.pushing.call("sync", bodies, once=True, deadline=deadline)]
        if any("step" not in said for said, _ in replies):
            raise GenerationOver
        self.network.take([arrays["values"] for _, arrays in replies])

    def leave(self, *, generation: int) -> None:
        """No more data in this epoch: the others go on without this one."""
        facts = {"rank": self.rank, "generation": generation}
        self.lines.pushing.call("leave_round", [pack(facts) for _ in range(self.lines.servers)], once=True)


def parts_of(gradient: Gradient, servers: int) -> list[Gradient]:
    """A gradient as each server's share; keys lie in the order of buckets, so these are slices."""
    g, cuts = gradient, cuts_by_owner(gradient.keys, servers)
    return [Gradient(g.keys[a:b], g.slots[a:b], g.shows[a:b], g.clicks[a:b], g.values[a:b]) for a, b in pairwise(cuts)]
