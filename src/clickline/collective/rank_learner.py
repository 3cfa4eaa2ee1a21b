"""The learner of one rank: each rank differentiates its own rows, and all take the same step.

The dense gradient is the mean over all rows of all ranks, and the tables learn from the sum, as they do in one process
whose batch is all ranks' batches. Dense parameters therefore stay the same bits everywhere; that they start so is
checked. A rank without rows takes part with nothing.
"""

from __future__ import annotations

import hashlib

import numpy as np
import torch
from numpy.typing import NDArray

from clickline.collective.group import Group
from clickline.collective.owned_tables import OwnedTable
from clickline.collective.rank_exchange import RankExchange
from clickline.config import Job
from clickline.data.batch import Batch
from clickline.data.schema import Schema
from clickline.errors import PeerError
from clickline.train.interrupts import Interrupts
from clickline.train.learner import Learned, Learner, weight_of
from clickline.train.sparse import Pulled, TrainableTable


class RankLearner(Learner):
    """The model, which is the same on all ranks, and this rank's buckets of the tables."""

    def __init__(
        self, *, job: Job, schema: Schema, threads: int, group: Group, interrupts: Interrupts | None = None
    ) -> None:
        # The sparse side keeps a reference to `rows`, which is filled below: an OwnedTable needs the exchange and the
        # local tables, which do not exist before the base class is initialised.
        rows: dict[str, TrainableTable] = {}
        super().__init__(job=job, schema=schema, threads=threads, elsewhere=rows)
        self.group = group
        self.interrupts = interrupts or Interrupts()
        self.interrupted = False
        """Whether any rank was interrupted: all ranks learn it after the same step."""
        self._dense = RankExchange(group, doing="adding up dense gradients")
        # An exchange of its own: with staleness 1, rows travel in another thread than dense gradients.
        sparse = RankExchange(group, doing="exchanging rows")
        self.sparse.empty()
        self._owned = {
            name: OwnedTable(name=name, tables=self.sparse.tables, exchange=sparse) for name in self.sparse.tables
        }
        rows.update(self._owned)
        self.check_alike()
        if not group.first:  # dropout must not drop the same units of every rank's rows
            torch.manual_seed(_seed(job.seed, group.rank, 0))

    def check_alike(self) -> None:
        """Raise unless the dense state is the same bits on all ranks."""
        digest = hashlib.sha256()
        for name, tensor in sorted(self.model.state_dict().items()):
            digest.update(name.encode() + tensor.detach().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
        # 7 bytes: the number travels as a signed 64-bit integer.
        mine = int.from_bytes(digest.digest()[:7], "big")
        all_digests = self._dense.all_numbers([mine])[:, 0].tolist()
        others = [str(rank) for rank, one in enumerate(all_digests) if one != all_digests[0]]
        if others:
            raise PeerError(
                f"rank {', '.join(others)} has another model than rank 0; every rank needs the same job, the same seed "
                "and the same versions of clickline and PyTorch"
            )

    def predict(self, batch: Batch) -> NDArray[np.float32]:
        if len(batch):
            return super().predict(batch)
        # A pull is collective: without it the other ranks would wait for the rows that this rank owns.
        self.sparse.pull(self.sparse.plan(batch), rows=0, training=False)
        return np.empty((0, 1), np.float32)

    def evict(self) -> int:
        return int(self._dense.all_numbers([super().evict()]).sum())

    def restore(self, tensors: dict[str, torch.Tensor], *, step: int, weights_only: bool = False) -> None:
        super().restore(tensors, step=step, weights_only=weights_only)
        if not weights_only and not self.group.first:
            state = tensors.get(f"random.torch.{self.group.rank}")
            if state is None:  # there were fewer ranks when it was saved
                torch.manual_seed(_seed(self.job.seed, self.group.rank, step))
            else:
                torch.set_rng_state(state)

    def _differentiate(self, batch: Batch, pulled: dict[str, Pulled]) -> Learned:
        return super()._differentiate(batch, pulled) if len(batch) else Learned(0.0, np.empty((0, 1), np.float32))

    def _agree(self, learned: Learned, weight: float) -> Learned:
        """One all-reduce: which parameters have a gradient, who was interrupted, weight, loss, gradients, buffers."""
        parameters = list(self.model.parameters())
        # Buffers, such as running means, are updated from the rows of one rank: averaging them keeps the models alike.
        buffers = [buffer for buffer in self.model.buffers() if buffer.is_floating_point()]
        # A parameter that no rank has used must keep `grad = None`: its optimizer would else take a step with zeros.
        flags = torch.tensor([*(float(one.grad is not None) for one in parameters), float(self.interrupts.asked)])
        values = [torch.zeros(one.numel()) if one.grad is None else one.grad.reshape(-1) for one in parameters]
        # Everything is multiplied by this rank's weight; the 1.0 becomes the sum of weights, to divide by afterwards.
        flat = torch.cat([torch.tensor([1.0, learned.loss]), *values, *(one.reshape(-1) for one in buffers)])
        if weight > 0:
            flat *= weight
        else:
            flat.zero_()  # and not times 0, which would keep a NaN
        # Flags are added unweighted: a rank without rows can be interrupted, too.
        flat = torch.cat([flags, flat])
        self._dense.add_up(flat)
        flags, flat = flat[: len(parameters) + 1], flat[len(parameters) + 1 :]
        self.interrupted = bool(flags[-1] > 0)
        flat /= flat[0].clamp_min(1e-12)
        loss, *parts = torch.split(flat[1:], [1, *(one.numel() for one in (*parameters, *buffers))])
        # Not strict: `parts` continues with the buffers, `flags` with the one of interrupts.
        for parameter, flag, part in zip(parameters, flags.tolist(), parts, strict=False):
            parameter.grad = part.view_as(parameter) if flag else None
        # The sum of weights is 0 if no rank had a row of any weight: then the averages are zeros, and the buffers keep
        # their values.
        if flat[0] > 0:
            for buffer, part in zip(buffers, parts[len(parameters) :], strict=True):
                buffer.copy_(part.view_as(buffer))
        return Learned(float(loss), learned.logits)

    def _push(self, batch: Batch, pulled: dict[str, Pulled], step: int) -> None:
        tick = step
        if batch.times is not None:
            tick = max(int(batch.times.max()), self.tick) if len(batch) else self.tick
        found = self.sparse.gradients(pulled, weight=weight_of(batch)) if len(batch) else {}
        threads = self.sparse.threads
        # All ranks push to all tables in the same order, with a gradient or without.
        for name, table in self._owned.items():
            one = found.get(name)
            if one is None:
                table.abstain(tick=tick, threads=threads)
            else:
                table.push(one.keys, one.values, one.shows, one.clicks, one.slots, tick=tick, threads=threads)
        self.tick = max([tick, *(table.tick for table in self._owned.values())])


def _seed(seed: int, rank: int, step: int) -> int:
    return int(np.random.SeedSequence((seed, rank, step)).generate_state(1, np.uint64)[0] >> np.uint64(1))
