"""The sparse side of a step: keys of a batch → rows of the tables → tensors, and gradients back.

A model declares embeddings; every table behind them is a native one. Embeddings that read the same slots share one
plan, so a batch's keys are deduplicated once. Nothing here loops over rows or keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from clickline import _native
from clickline.config import Job
from clickline.data.batch import Batch
from clickline.data.embeddings import POOLING, Embedding
from clickline.data.schema import Schema
from clickline.train.frozen.frozen_names import frozen_tables
from clickline.train.row_gradients import Gradient, merged
from clickline.train.sparse_tables import build_tables

Floats = NDArray[np.float32]


class RowReader(Protocol):
    """A table that rows can be pulled from: in this process, on servers, or in published files."""

    def pull(
        self,
        keys: NDArray[np.uint64],
        out: Floats,
        *,
        training: bool,
        slots: NDArray[np.uint16] | None = None,
        threads: int = 1,
    ) -> None: ...


class TrainableTable(RowReader, Protocol):
    """A table that also learns from pushed gradients."""

    def push(
        self,
        keys: NDArray[np.uint64],
        grads: Floats,
        shows: Floats,
        clicks: Floats,
        slots: NDArray[np.uint16],
        *,
        tick: int,
        scale: float = 1.0,
        threads: int = 1,
    ) -> None: ...


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
    """A model's tables: pulls rows into tensors, and turns the tensors' gradients into gradients of rows.

    `elsewhere` are the tables if they are in other processes; without it they are made here.
    """

    def __init__(
        self,
        *,
        embeddings: Mapping[str, Embedding],
        schema: Schema,
        job: Job,
        threads: int,
        elsewhere: Mapping[str, RowReader] | None = None,
    ) -> None:
        self.embeddings = dict(embeddings)
        self._frozen = frozen_tables(self.embeddings, job.train.frozen)
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
        """The tables of this process; none if all are elsewhere."""
        self._rows: Mapping[str, RowReader] = self.tables if elsewhere is None else elsewhere
        if elsewhere is None:
            self.empty()

    def empty(self) -> None:
        """Replace the tables by empty ones, as at the start and before a checkpoint is loaded."""
        # The mapping stays the same object: `_rows`, and the tables of a rank, look tables up in it at each use.
        self.tables.update(
            build_tables(
                embeddings=self.embeddings, tables=self._job.tables, slots=self._schema.slots, seed=self._job.seed
            )
        )

    def plan(self, batch: Batch) -> dict[str, _native.Plan]:
        """The plan of each embedding: the distinct keys of the batch, and which rows use them."""
        # Embeddings of the same slots and pooling (the linear and the deep part, say) share one plan.
        plans: dict[_Reading, _native.Plan] = {}
        for reading in self._readings.values():
            if reading not in plans:
                plans[reading] = _native.Plan(
                    batch.keys,
                    batch.offsets,
                    columns=self._slots,
                    select=list(reading.columns),
                    pooling=list(reading.pooling),
                    # Clicks of a key, which the score of eviction weighs, are those of the first label.
                    labels=batch.labels[:, 0],
                    sequence_length=reading.sequence_length,
                    threads=self.threads,
                )
        return {name: plans[reading] for name, reading in self._readings.items()}

    def pull(self, plans: Mapping[str, _native.Plan], *, rows: int, training: bool) -> dict[str, Pulled]:
        """TrainableTable of every embedding, pooled into tensors; those of training collect gradients."""
        pulled = {}
        for name, plan in plans.items():
            embedding, reading = self.embeddings[name], self._readings[name]
            learns = training and embedding.table not in self._frozen
            # Each distinct key is pulled once, however many rows of the batch have it.
            distinct = np.empty((len(plan.unique), embedding.dim), np.float32)
            self._rows[embedding.table].pull(
                plan.unique, distinct, training=learns, slots=plan.slots, threads=self.threads
            )
            width = reading.sequence_length or len(reading.columns)
            tensor = torch.empty((rows, width, embedding.dim))  # `gather` writes into its memory
            plan.gather(distinct, tensor.numpy(), threads=self.threads)
            # `requires_grad` is set last: numpy() refuses a tensor that has it.
            pulled[name] = Pulled(plan, distinct, tensor.requires_grad_(learns))
        return pulled

    def inputs(self, batch: Batch, pulled: Mapping[str, Pulled]) -> dict[str, torch.Tensor]:
        """The named tensors that a model's forward receives."""
        inputs = {"dense": torch.from_numpy(batch.dense)}
        for name, one in pulled.items():
            inputs[name] = one.tensor
            if self._readings[name].sequence_length:
                inputs[f"{name}.length"] = torch.from_numpy(one.plan.lengths)
        return inputs

    def gradients(self, pulled: Mapping[str, Pulled], *, weight: float) -> dict[str, Gradient]:
        """The gradient of each table, after `backward`.

        The loss is a mean over rows of this total `weight`; tables learn from the sum, so that what a key learns from a
        row does not depend on how many other rows are in the batch.
        """
        gradients = {}
        for table, names in self._sharing.items():
            # A forward that ignores one of its inputs leaves that tensor without a gradient.
            used = [pulled[name] for name in names if pulled[name].tensor.grad is not None]
            parts = [
                Gradient(one.plan.unique, one.plan.slots, one.plan.shows, one.plan.clicks, self._distinct(one, weight))
                for one in used
            ]
            if parts:
                gradients[table] = parts[0] if len(parts) == 1 else merged(parts, threads=self.threads)
        return gradients

    def _distinct(self, one: Pulled, weight: float) -> Floats:
        gradient = one.tensor.grad
        assert gradient is not None  # noqa: S101  (callers select on it)
        out = np.empty_like(one.rows)
        # Native code needs contiguous memory, which autograd does not guarantee. `rows` must be those of this pull:
        # with max pooling they decide which key an element of the gradient belongs to.
        one.plan.scatter(gradient.contiguous().numpy(), one.rows, out, threads=self.threads)
        # From the gradient of a mean to that of a sum.
        out *= np.float32(weight)
        return out
