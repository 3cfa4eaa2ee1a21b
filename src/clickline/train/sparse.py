"""The sparse side of a step: keys of a batch → rows of the tables → tensors, and gradients back.

A model declares embeddings; every table behind them is a native one. Embeddings that read the same slots share one
plan, so a batch's keys are deduplicated once. Nothing here loops over rows or keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from clickline import _native
from clickline.config import Job
from clickline.config.tables import Table
from clickline.data.batch import Batch
from clickline.data.schema import Schema
from clickline.models.embeddings import Embedding
from clickline.ps.tables import build_table

POOLING = {"sum": 0, "mean": 1, "max": 2, "sequence": 0}
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Pulled:
    """One embedding of one batch: its plan, the distinct rows it pulled, and the tensor the model is handed."""

    plan: _native.Plan
    rows: Floats
    tensor: torch.Tensor


@dataclass(frozen=True)
class _Reading:
    """Which slots a plan covers, and how it pools them."""

    columns: tuple[int, ...]
    pooling: tuple[int, ...]
    sequence_length: int


class SparseSide:
    """A model's tables, and the traffic between them and PyTorch."""

    def __init__(self, *, embeddings: Mapping[str, Embedding], schema: Schema, job: Job, threads: int) -> None:
        self.embeddings = dict(embeddings)
        self.threads = threads
        self._slots = len(schema.slots)
        place = {slot.name: column for column, slot in enumerate(schema.slots)}
        pooling = [POOLING[slot.pooling] for slot in schema.slots]
        self._job, self._schema = job, schema
        self._readings: dict[str, _Reading] = {}
        self._sharing: dict[str, list[str]] = {}
        for name, embedding in self.embeddings.items():
            columns = tuple(place[slot] for slot in embedding.slots)
            self._readings[name] = _Reading(columns, tuple(pooling[c] for c in columns), embedding.sequence_length)
            self._sharing.setdefault(embedding.table, []).append(name)
        self.tables: dict[str, _native.Table] = {}
        self.empty()

    def empty(self) -> None:
        """Tables without a row, as at the start and before a checkpoint is loaded."""
        for name in self._sharing:
            self.tables[name] = build_table(
                dim=self.embeddings[name].dim,
                table=self._settings(name),
                tables=self._job.tables,
                slots=self._schema.slots,
                seed=self._job.seed,
            )

    def restart(self) -> None:
        """Begin another epoch: rows of tables that the job restarts learn anew."""
        for name, table in self.tables.items():
            if self._settings(name).restart_epochs:
                table.reset(threads=self.threads)

    def _settings(self, table: str) -> Table:
        return self._job.tables.linear if self.embeddings[table].kind == "linear" else self._job.tables.embedding

    def plan(self, batch: Batch) -> dict[str, _native.Plan]:
        """Distinct keys of a batch, for each embedding."""
        plans: dict[_Reading, _native.Plan] = {}
        for reading in self._readings.values():
            if reading not in plans:
                plans[reading] = _native.Plan(
                    batch.keys,
                    batch.offsets,
                    columns=self._slots,
                    select=list(reading.columns),
                    pooling=list(reading.pooling),
                    labels=batch.labels[:, 0],
                    sequence_length=reading.sequence_length,
                    threads=self.threads,
                )
        return {name: plans[reading] for name, reading in self._readings.items()}

    def pull(self, plans: Mapping[str, _native.Plan], *, rows: int, training: bool) -> dict[str, Pulled]:
        """Rows of every embedding, pooled into tensors; those of training collect gradients."""
        pulled = {}
        for name, plan in plans.items():
            embedding, reading = self.embeddings[name], self._readings[name]
            distinct = np.empty((len(plan.unique), embedding.dim), np.float32)
            self.tables[embedding.table].pull(
                plan.unique, distinct, training=training, slots=plan.slots, threads=self.threads
            )
            width = reading.sequence_length or len(reading.columns)
            tensor = torch.empty((rows, width, embedding.dim))
            plan.gather(distinct, tensor.numpy(), threads=self.threads)
            pulled[name] = Pulled(plan, distinct, tensor.requires_grad_(training))
        return pulled

    def inputs(self, batch: Batch, pulled: Mapping[str, Pulled]) -> dict[str, torch.Tensor]:
        """The named tensors that a model's forward receives."""
        inputs = {"dense": torch.from_numpy(batch.dense)}
        for name, one in pulled.items():
            inputs[name] = one.tensor
            if self._readings[name].sequence_length:
                inputs[f"{name}.length"] = torch.from_numpy(one.plan.lengths)
        return inputs

    def push(self, pulled: Mapping[str, Pulled], *, tick: int, weight: float) -> None:
        """Send the gradients that backward left in the tensors to the tables, which learn from them.

        The loss is a mean over rows of this total `weight`; tables learn from the sum, so that what a key learns from a
        row does not depend on how many other rows are in the batch.
        """
        for table, names in self._sharing.items():
            used = [pulled[name] for name in names if pulled[name].tensor.grad is not None]
            gradients, plans = [self._distinct_gradient(one, weight) for one in used], [one.plan for one in used]
            if not plans:
                continue
            if len(plans) == 1:
                plan = plans[0]
                keys, slots, shows, clicks, gradient = plan.unique, plan.slots, plan.shows, plan.clicks, gradients[0]
            else:
                keys, slots, shows, clicks, gradient = self._merged(plans, gradients)
            self.tables[table].push(keys, gradient, shows, clicks, slots, tick=tick, threads=self.threads)

    def _distinct_gradient(self, one: Pulled, weight: float) -> Floats:
        gradient = one.tensor.grad
        assert gradient is not None  # noqa: S101  (callers select on it)
        out = np.empty_like(one.rows)
        one.plan.scatter(gradient.contiguous().numpy(), one.rows, out, threads=self.threads)
        out *= np.float32(weight)
        return out

    def _merged(
        self, plans: list[_native.Plan], gradients: list[Floats]
    ) -> tuple[NDArray[np.uint64], NDArray[np.uint16], Floats, Floats, Floats]:
        """Several embeddings of one table: a key that occurs in two of them learns once, from the sum."""
        keys = np.concatenate([plan.unique for plan in plans])
        merge = _native.Plan(
            keys, None, columns=1, select=[0], pooling=[0], labels=np.zeros(len(keys), np.float32), threads=self.threads
        )

        def summed(parts: list[Floats]) -> Floats:
            joined = np.concatenate(parts).reshape(len(keys), 1, -1)
            none = np.zeros((len(merge.unique), joined.shape[2]), np.float32)
            out = np.empty_like(none)
            merge.scatter(joined, none, out, threads=self.threads)
            return out

        slots = np.concatenate([plan.slots for plan in plans])
        order = np.argsort(keys, kind="stable")
        first = order[np.searchsorted(keys, merge.unique, sorter=order)]
        shows = summed([plan.shows for plan in plans])[:, 0].copy()
        clicks = summed([plan.clicks for plan in plans])[:, 0].copy()
        return merge.unique, slots[first], shows, clicks, summed(gradients)
