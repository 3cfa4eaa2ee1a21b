"""What a run asks of the process that it runs in, and the answers of one process that trains alone.

`collective/rank_process.py` has the answers of a rank, which asks the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from clickline.config import Job
from clickline.data.dataset import Dataset
from clickline.data.schema import Schema
from clickline.train.evaluation.evaluation import EVALUATION_BATCH, evaluate
from clickline.train.evaluation.metric_set import MetricSet, flat
from clickline.train.interrupts import Interrupts
from clickline.train.learner import Learner
from clickline.train.loop.data_pass import AnyPass, DatasetPass, PiecePass
from clickline.train.loop.piece_share import SingleRank
from clickline.train.loop.training_state import TrainingState
from clickline.train.monitoring.member_status import MemberStatus, own_process
from clickline.train.monitoring.metric_interval import Interval


class TrainingProcess(Protocol):
    """One process, or one rank of several: where their ways differ, the training loop asks this object."""

    def open_pass(self, state: TrainingState) -> AnyPass:
        """The rest of the epoch's data that this process reads."""

    def measure(self, paths: list[str], *, progress: Callable[[int], None]) -> dict[str, float]:
        """Figures of the model on some data. `progress` is called with the number of rows done."""

    def whole_interval(self, state: TrainingState) -> Interval | None:
        """The state's interval with the rows of all ranks, on the process that writes the journal; None elsewhere."""

    def stop_requested(self) -> bool:
        """Whether the run should stop after this step; all ranks give the same answer."""

    def members(self, state: TrainingState) -> list[MemberStatus]:
        """The processes that train, this one first, as a status lists them."""


class SingleProcess:
    """One process that trains alone: it reads all files and holds all rows."""

    def __init__(self, *, job: Job, schema: Schema, learner: Learner, interrupts: Interrupts) -> None:
        self._job, self._schema, self._learner, self._interrupts = job, schema, learner, interrupts
        self._metrics = MetricSet.of(job.metrics, loss=job.train.loss)

    def open_pass(self, state: TrainingState) -> AnyPass:
        if state.pieces is None:
            return DatasetPass(job=self._job, schema=self._schema, state=state)
        # The epoch was begun by ranks or by trainers of parameter servers: it ends in their order.
        return PiecePass(job=self._job, schema=self._schema, state=state, ranks=SingleRank())

    def measure(self, paths: list[str], *, progress: Callable[[int], None]) -> dict[str, float]:
        dataset = Dataset(
            data=self._job.data,
            schema=self._schema,
            paths=paths,
            batch_size=EVALUATION_BATCH,
            seed=self._job.seed,
            shuffle=False,
        )
        return flat(evaluate(self._learner, dataset, metrics=self._metrics, progress=progress))

    def whole_interval(self, state: TrainingState) -> Interval | None:
        return state.interval

    def stop_requested(self) -> bool:
        return self._interrupts.asked

    def members(self, state: TrainingState) -> list[MemberStatus]:
        member = own_process(0)
        member["rows"] = state.position.rows
        member["steps"] = self._learner.step
        member["rows_per_second"] = round(state.interval.rate, 1)
        member["tables"] = {name: len(table) for name, table in self._learner.sparse.tables.items()}
        return [member]
