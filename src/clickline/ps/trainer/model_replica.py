"""A trainer's copy of the model: forward and backward over one flat vector of parameters, rows from anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from clickline import _native
from clickline.config import Job
from clickline.data.batch import Batch
from clickline.data.schema import Schema
from clickline.models.base import Model
from clickline.ps.block_bounds import block_of
from clickline.ps.trainer.flat_parameters import Flat
from clickline.train.forward import logits_of, means_of
from clickline.train.learner import Learned, check_finite, loss_of
from clickline.train.sparse import Pulled, RowReader, SparseSide

Floats = NDArray[np.float32]


class RemoteTable:
    """A table on the servers, for pulls. Pushes need more than a table knows, so strategies send them."""

    def __init__(self, lane: _native.Lane, number: int, *, wire: str) -> None:
        self._lane, self.number, self._wire = lane, number, wire
        self.versions: list[int] = []
        """Of each server's part, when rows were last pulled."""

    def pull(
        self,
        keys: NDArray[np.uint64],
        out: Floats,
        *,
        training: bool,
        slots: NDArray[np.uint16] | None = None,
        threads: int = 1,
    ) -> None:
        # Figures are those of the rows as they are kept and published, not of what 16 bits leave of them.
        wire = self._wire if training else "fp32"
        self.versions = self._lane.pull(self.number, keys, out, training=training, slots=slots, wire=wire)


class ModelReplica:
    """Model, flat parameters, and the sparse side over the given tables."""

    def __init__(
        self, *, job: Job, schema: Schema, model: Model, tables: Mapping[str, RowReader], threads: int
    ) -> None:
        self.job, self.schema, self.model = job, schema, model
        self.means = means_of(schema)
        self.flat = Flat(self.model)
        self.sparse = SparseSide(
            embeddings=self.model.embeddings, schema=schema, job=job, threads=threads, elsewhere=tables
        )

    def pull(self, batch: Batch) -> dict[str, Pulled]:
        return self.sparse.pull(self.sparse.plan(batch), rows=len(batch), training=True)

    def compute(self, batch: Batch, pulled: Mapping[str, Pulled], *, step: int) -> Learned:
        """Forward and backward; gradients are left in `flat.gradient` and in the pulled tensors."""
        self.model.train()
        self.flat.gradient.zero_()
        logits = logits_of(self.model, self.sparse.inputs(batch, pulled), means=self.means)
        loss = loss_of(logits, batch, model=self.model, schema=self.schema)
        loss.backward()  # type: ignore[no-untyped-call]
        clip = self.job.train.optimizer.clip
        if clip > 0:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), clip)
        learned = Learned(float(loss.detach()), logits.detach().reshape(len(batch), -1).numpy())
        check_finite(learned.loss, step=step)
        return learned

    def predict(self, batch: Batch) -> Floats:
        """Logits or values [rows, labels] with the parameters as they are; unknown keys count as zeros."""
        self.model.eval()
        with torch.inference_mode():
            pulled = self.sparse.pull(self.sparse.plan(batch), rows=len(batch), training=False)
            logits = logits_of(self.model, self.sparse.inputs(batch, pulled), means=self.means)
        return np.asarray(logits.reshape(len(batch), -1).numpy())

    def slices(self, vector: torch.Tensor, servers: int) -> list[Floats]:
        """A flat vector, cut into the servers' blocks."""
        bounds = [block_of(len(vector), part=part, parts=servers) for part in range(servers)]
        return [vector[first:last].numpy() for first, last in bounds]

    def take(self, parts: list[Floats]) -> None:
        """Replace all parameters by the servers' blocks."""
        begin, values = 0, self.flat.values.numpy()
        for part in parts:
            values[begin : begin + len(part)] = part
            begin += len(part)

    @property
    def buffers(self) -> dict[str, NDArray[Any]]:
        """The model's buffers, such as running means: state beside its parameters."""
        return {name: buffer.numpy() for name, buffer in self.model.named_buffers()}
