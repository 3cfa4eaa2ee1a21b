"""Sends gradients to the servers: rows of every table by PUSH, then the dense gradient."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from numpy.typing import NDArray

from clickline.config.cluster import Cluster
from clickline.ps.trainer.model_replica import ModelReplica, RemoteTable
from clickline.ps.trainer.pserver_client import PserverClient
from clickline.ps.trainer.strategies.row_prefetch import Versions
from clickline.train.row_gradients import Gradient


class GradientPush:
    """The pushes of one trainer, and the dense parameters that come back with every `dense_every`th of them."""

    def __init__(
        self, *, cluster: Cluster, replica: ModelReplica, pservers: PserverClient, tables: dict[str, RemoteTable]
    ) -> None:
        self._settings, self._replica, self._pservers, self._tables = cluster.agree, replica, pservers, tables
        self._pushed = 0
        self._fresh: list[NDArray[Any]] | None = None

    def push(
        self,
        gradients: Mapping[str, Gradient],
        dense: torch.Tensor,
        *,
        tick: int,
        lease: int,
        done: int,
        versions: Versions,
    ) -> None:
        """Send one gradient, and wait until all servers have it."""
        pservers = self._pservers
        for name, gradient in gradients.items():
            pservers.pushing.push(
                self._tables[name].number,
                gradient.keys,
                gradient.values,
                gradient.shows,
                gradient.clicks,
                gradient.slots,
                tick=tick,
                based_on=versions.get(name, []),
                max_staleness=self._settings.max_staleness,
                lease=lease,
                rows_done=done,
                wire=pservers.wire,
            )
        self._pushed += 1
        # Dense last: a server that has it has everything of the batch, which is how `done` is counted there.
        want = "values" if self._pushed % self._settings.dense_every == 0 else ""
        parts = [{"gradient": part} for part in self._replica.slices(dense, pservers.servers)]
        fresh = pservers.dense(parts, want=want, lease=lease, done=done)
        if fresh:
            self._fresh = fresh

    def take_fresh(self) -> None:
        """Give the replica the parameters that came with the last push, if any have since this was called last."""
        # async sets it on the push thread, without a lock. Parameters that arrive between the read and the reset are
        # dropped; a later push brings newer ones.
        fresh, self._fresh = self._fresh, None
        if fresh is not None:
            self._replica.take(fresh)

    def forget_fresh(self) -> None:
        """Parameters that came before now are not to be used: newer ones are fetched, or the generation is over."""
        self._fresh = None
