"""How a rank takes part in the training loop of train/loop: with data, figures and requests to stop that are all
ranks' together.

Every rank runs the same loop. What decides its course (figures, steps, the checkpoint to resume from) is the same on
all ranks, or announced by rank 0, which alone writes the journal and the manifest.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

from clickline.collective.group import Group
from clickline.collective.rank_exchange import RankExchange
from clickline.collective.rank_figures import collected, gathered
from clickline.collective.rank_learner import RankLearner
from clickline.config import Job
from clickline.data.leasing.pieces import shortage
from clickline.data.schema import Schema
from clickline.errors import DataError
from clickline.progress import Watcher
from clickline.train.evaluation.evaluation import EVALUATION_BATCH, Predictions
from clickline.train.evaluation.metric_set import MetricSet, flat
from clickline.train.loop.data_pass import AnyPass, PiecePass
from clickline.train.loop.piece_share import PieceShare
from clickline.train.loop.training_state import TrainingState
from clickline.train.monitoring.member_status import MemberStatus, own_process
from clickline.train.monitoring.metric_interval import Interval


class RankProcess:
    """One rank of several: a `TrainingProcess` that asks the other ranks."""

    def __init__(
        self,
        *,
        job: Job,
        schema: Schema,
        learner: RankLearner,
        watcher: Watcher,
        group: Group,
        exchange: RankExchange,
        metrics_address: str = "",
    ) -> None:
        """`metrics_address` is where this rank serves its metrics, if it does; rank 0 serves those of the run."""
        self._job, self._schema, self._learner, self._watcher = job, schema, learner, watcher
        self._group, self._exchange, self._metrics_address = group, exchange, metrics_address
        self._metrics = MetricSet.of(job.metrics, loss=job.train.loss)
        self._others: list[MemberStatus] = []

    def exchange_members(self, state: TrainingState) -> None:
        """Send this rank's status to rank 0, which lists all of them."""
        self._others = self._exchange.collect_json(self._own_member(state))[1:]

    def open_pass(self, state: TrainingState) -> AnyPass:
        fresh = state.pieces is None
        data = PiecePass(job=self._job, schema=self._schema, state=state, ranks=self._exchange)
        idle = shortage(data.pieces, trainers=self._group.size)
        if fresh and state.position.epoch == 0 and idle is not None:
            self._watcher.say(idle)
        return data

    def measure(self, paths: list[str], *, progress: Callable[[int], None]) -> dict[str, float]:
        pieces = PieceShare(
            job=self._job,
            schema=self._schema,
            paths=paths,
            batch_size=EVALUATION_BATCH,
            shuffle=False,
            ranks=self._exchange,
        )
        predictions, rows = Predictions(), 0
        with closing(pieces.turns(epoch=0)) as turns:
            for batch, turn in turns:
                # Also without rows of its own: this rank's table rows are pulled by the others.
                logits = self._learner.predict(batch)
                if len(batch):
                    predictions.add(batch, logits)
                rows += turn.rows
                progress(rows)
        if not rows:
            raise DataError(f"there are no rows in the data: {', '.join(paths[:3])}")
        whole = gathered(predictions, self._exchange)
        figures: dict[str, float] = self._exchange.announce(
            None if whole is None else flat(self._metrics.measure_all(self._schema.labels, whole.columns()))
        )
        return figures

    def whole_interval(self, state: TrainingState) -> Interval | None:
        whole = collected(state.interval, self._exchange)
        self.exchange_members(state)
        return whole

    def stop_requested(self) -> bool:
        return self._learner.interrupted

    def members(self, state: TrainingState) -> list[MemberStatus]:
        """This rank, and the others as they were at the last line of metrics."""
        return [self._own_member(state), *self._others]

    def _own_member(self, state: TrainingState) -> MemberStatus:
        member = own_process(self._group.rank)
        member["rows"], member["steps"] = state.own_rows, self._learner.step
        member["tables"] = {name: len(table) for name, table in self._learner.sparse.tables.items()}
        if self._metrics_address:
            member["metrics"] = self._metrics_address
        return member
