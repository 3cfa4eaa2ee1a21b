"""The learner: a model, its tables, its optimizer, and one step of each.

`learn` trains on one batch after another: plan → pull → forward → backward → dense step → push. Evaluation takes the
same steps up to forward, and never changes a table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import binary_cross_entropy_with_logits, mse_loss

from clickline.config import Job
from clickline.config.training import Loss
from clickline.data.batch import Batch
from clickline.data.schema import Schema
from clickline.errors import CheckpointError, ModelError
from clickline.train.dense_optimizer import dense_optimizer
from clickline.train.forward import logits_of, means_of
from clickline.train.model_factory import build
from clickline.train.sparse import Pulled, SparseSide, TrainableTable
from clickline.train.sparse_tables import sweeps
from clickline.train.weight_average import Average

Tag = TypeVar("Tag")


@dataclass(frozen=True)
class Learned:
    """The result of a step, for metrics."""

    loss: float
    logits: NDArray[np.float32]
    """[rows, labels]; values, with a squared loss"""


class Learner:
    """The model, its tables and its optimizer, with the steps that change them.

    `elsewhere` are the tables if their rows are not all in this process. RankLearner overrides `_agree` and `_push`.
    """

    def __init__(
        self, *, job: Job, schema: Schema, threads: int, elsewhere: Mapping[str, TrainableTable] | None = None
    ) -> None:
        self.job = job
        self.schema = schema
        self.model = build(job, schema)
        self.means = means_of(schema)
        self.sparse = SparseSide(
            embeddings=self.model.embeddings, schema=schema, job=job, threads=threads, elsewhere=elsewhere
        )
        self.optimizer = dense_optimizer(self.model, job.train.optimizer)
        self.average = Average(self.model, keep=job.train.average)
        self.step = 0
        self.tick = 0
        """The tables' clock: event time of the newest row if the log has it, else the step."""

    def learn(
        self, batches: Iterable[tuple[Batch, Tag]], *, barrier: Callable[[int], bool]
    ) -> Iterator[tuple[Batch, Tag, Learned]]:
        """Learn from each batch in turn. After a step for which `barrier(step)` is true, no pull or push is in flight.

        With staleness 1, one thread pushes the gradients of the step before and pulls the rows of the step after, in
        that order, while this one computes: the same result every time, one step stale.
        """
        if self.job.train.staleness == 0:
            for batch, tag in batches:
                pulled = self._pull(batch)
                learned = self._compute(batch, pulled)
                self._push(batch, pulled, self.step)
                yield batch, tag, learned
            return
        # One thread: pushes and pulls run in the order of submission. Leaving the block, also by an exception, waits
        # for it, so no push changes a table after this generator is closed.
        with ThreadPoolExecutor(1, thread_name_prefix="clickline-sparse") as sparse:
            stream = iter(batches)
            current = next(stream, None)
            ahead: Future[dict[str, Pulled]] | None = None
            pushing: Future[None] | None = None
            while current is not None:
                batch, tag = current
                # The rows of this batch were pulled while the batch before it was computed, except after a barrier.
                pulled = self._pull(batch) if ahead is None else ahead.result()
                current, ahead = next(stream, None), None
                # Decided before the next pull is submitted: rows that were pulled ahead of a checkpoint would be one
                # step staler than those that a resumed run pulls, and the bits would differ.
                stop_here = barrier(self.step + 1) or current is None
                if current is not None and not stop_here:
                    # Queued behind the push of the step before, in the one sparse thread: always the same order.
                    ahead = sparse.submit(self._pull, current[0])
                learned = self._compute(batch, pulled)
                # At most one push is in flight, so gradients do not pile up behind a slow sparse thread.
                if pushing is not None:
                    pushing.result()  # raises what the push raised
                pushing = sparse.submit(self._push, batch, pulled, self.step)
                if stop_here:
                    pushing.result()
                    pushing = None
                yield batch, tag, learned

    def predict(self, batch: Batch) -> NDArray[np.float32]:
        """Logits, or values with a squared loss, [rows, labels]. Keys without a row count as zeros, as in serving."""
        self.model.eval()
        with torch.inference_mode(), self.average.in_place():
            pulled = self.sparse.pull(self.sparse.plan(batch), rows=len(batch), training=False)
            logits = logits_of(self.model, self.sparse.inputs(batch, pulled), means=self.means)
        return np.asarray(logits.reshape(len(batch), -1).numpy())

    def _pull(self, batch: Batch) -> dict[str, Pulled]:
        return self.sparse.pull(self.sparse.plan(batch), rows=len(batch), training=True)

    def _push(self, batch: Batch, pulled: dict[str, Pulled], step: int) -> None:
        # Rows are shuffled, so a batch may be older than the one before it: the clock of the tables never goes back.
        self.tick = step if batch.times is None else max(int(batch.times.max()), self.tick)
        for name, one in self.sparse.gradients(pulled, weight=weight_of(batch)).items():
            self.sparse.tables[name].push(
                one.keys, one.values, one.shows, one.clicks, one.slots, tick=self.tick, threads=self.sparse.threads
            )

    def _compute(self, batch: Batch, pulled: dict[str, Pulled]) -> Learned:
        # A validation since the last step has left the model in evaluation mode.
        self.model.train()
        self.optimizer.forget_gradients()
        learned = self._agree(self._differentiate(batch, pulled), weight_of(batch))
        # After `_agree`: ranks clip by the norm of the gradient of all, so they take the same step.
        clip = self.job.train.optimizer.clip
        if clip > 0:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), clip)
        self.optimizer.step()
        self.step += 1
        self.average.follow(self.step)
        # Raised before the push of this step: no row learns from a gradient that is not finite.
        check_finite(learned.loss, step=self.step)
        return learned

    def _agree(self, learned: Learned, weight: float) -> Learned:
        """Called between backward and the dense step: ranks average their gradients and losses here."""
        return learned

    def _differentiate(self, batch: Batch, pulled: dict[str, Pulled]) -> Learned:
        """Forward and backward: gradients are in the parameters and in the pulled tensors."""
        logits = logits_of(self.model, self.sparse.inputs(batch, pulled), means=self.means)
        loss = loss_of(logits, batch, model=self.model, schema=self.schema)
        loss.backward()  # type: ignore[no-untyped-call]
        return Learned(float(loss.detach()), logits.detach().reshape(len(batch), -1).numpy())

    @property
    def evicts(self) -> bool:
        """Whether any slot has an eviction rule, or counts decay."""
        return sweeps(tables=self.job.tables, slots=self.schema.slots)

    def evict(self) -> int:
        """Evict rows from all tables; return how many."""
        return sum(table.evict(self.tick, self.job.tables.count_decay) for table in self.sparse.tables.values())

    def tensors(self) -> dict[str, torch.Tensor]:
        """All dense state by name: parameters, buffers, optimizer state, random state."""
        out = {f"model.{name}": tensor.detach() for name, tensor in self.model.state_dict().items()}
        for name, parameter in self.model.named_parameters():
            for key, value in self.optimizer.state.get(parameter, {}).items():
                out[f"optimizer.{name}.{key}"] = torch.as_tensor(value)
        out.update({f"average.{name}": tensor for name, tensor in self.average.tensors().items()})
        # Dropout draws from this state: with another one a resumed run would not give the same bits.
        out["random.torch"] = torch.get_rng_state()
        out["tick"] = torch.tensor(self.tick)
        return out

    def restore(self, tensors: dict[str, torch.Tensor], *, step: int, weights_only: bool = False) -> None:
        """Restore what `tensors` returned; with `weights_only`, only the model's weights (a warm start)."""
        # Compared before anything changes: load_state_dict copies all that fits before it raises.
        wanted = self.model.state_dict()
        given = {name[6:]: tensor for name, tensor in tensors.items() if name.startswith("model.")}
        wrong = [name for name in wanted if name not in given or given[name].shape != wanted[name].shape]
        if wrong or given.keys() - wanted.keys():
            names = ", ".join(sorted({*wrong, *(given.keys() - wanted.keys())})[:5])
            raise CheckpointError(
                f"the checkpoint's dense parameters are not this model's: {names}; is `model` the same?"
            )
        self.model.load_state_dict(given)
        self.average.restore({name[8:]: tensor for name, tensor in tensors.items() if name.startswith("average.")})
        if weights_only:
            return
        for name, parameter in self.model.named_parameters():
            prefix = f"optimizer.{name}."
            state = {key[len(prefix) :]: tensor for key, tensor in tensors.items() if key.startswith(prefix)}
            if state:
                self.optimizer.state[parameter] = state
        torch.set_rng_state(tensors["random.torch"])
        self.step = step
        self.tick = int(tensors["tick"])


def weight_of(batch: Batch) -> float:
    """The total weight of a batch's rows, over which its loss is a mean: their number, if they have no weights."""
    return len(batch) if batch.weights is None else float(batch.weights.sum())


def loss_of(logits: torch.Tensor, batch: Batch, *, model: torch.nn.Module, schema: Schema) -> torch.Tensor:
    """The loss of a batch: log loss of its logits, or squared error of its values, against its labels."""
    wanted = torch.from_numpy(batch.labels)
    shaped = wanted[:, 0] if logits.dim() == 1 else wanted
    if logits.shape != shaped.shape:
        raise ModelError(
            f"{type(model).__name__}.forward gave logits of shape {tuple(logits.shape)}; "
            f"{tuple(shaped.shape)} was expected for {len(batch)} rows and labels {', '.join(schema.labels)}"
        )
    weights = None if batch.weights is None else torch.from_numpy(batch.weights)
    return weighted_loss(logits, shaped, weights, loss=schema.loss)


def check_finite(loss: float, *, step: int) -> None:
    """Raise if a run has diverged."""
    if not np.isfinite(loss):
        raise ModelError(
            f"loss is {loss} at step {step}: training diverged; lower train.optimizer.learning_rate or "
            "tables.*.optimizer.learning_rate, or set their clip"
        )


def weighted_loss(
    logits: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor | None, *, loss: Loss = "log"
) -> torch.Tensor:
    """Log loss or squared error: mean over rows (by weight, if there are weights), summed over labels."""
    compare = mse_loss if loss == "squared" else binary_cross_entropy_with_logits
    if weights is None and logits.dim() == 1:
        return compare(logits, labels)
    each = compare(logits, labels, reduction="none")
    per_row = each if each.dim() == 1 else each.sum(1)
    if weights is None:
        return per_row.mean()
    # A batch may have rows of weight 0 only: its loss is 0 then, not NaN.
    return (per_row * weights).sum() / weights.sum().clamp_min(1e-12)
