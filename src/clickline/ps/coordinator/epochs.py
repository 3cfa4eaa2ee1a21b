"""The epochs of a run: lease tables, the pauses in between, and what happens between two of them."""

from __future__ import annotations

import time

from clickline.config import Job
from clickline.data.leasing.leases import LeaseTable
from clickline.files.failpoints import reach
from clickline.progress import Watcher
from clickline.ps.coordinator.model_evaluation import ModelEvaluation
from clickline.ps.coordinator.snapshot_writer import SnapshotWriter
from clickline.ps.coordinator.state.failures import FailureDetector
from clickline.ps.coordinator.state.members import Member
from clickline.ps.coordinator.state.run_state import RunState
from clickline.ps.coordinator.supervision import Supervision
from clickline.ps.coordinator.training_display import TrainingDisplay
from clickline.ps.protocol import pserver_messages as messages
from clickline.ps.protocol.work_messages import Action
from clickline.train.early_stopping import early_stop_message, stopped_early
from clickline.train.sparse_tables import sweeps


class Epochs:
    """Trains epoch after epoch, from wherever the record is."""

    def __init__(
        self,
        *,
        state: RunState,
        supervision: Supervision,
        failures: FailureDetector,
        snapshots: SnapshotWriter,
        evaluation: ModelEvaluation,
        display: TrainingDisplay,
        watcher: Watcher,
    ) -> None:
        self._state, self._supervision, self._failures = state, supervision, failures
        self._snapshots, self._evaluation = snapshots, evaluation
        self._display, self._watcher = display, watcher

    @property
    def _job(self) -> Job:
        return self._state.job

    def train_all(self) -> None:
        """All epochs that are left, and the last snapshot."""
        record, settings = self._state.record, self._job.train
        # The run was taken up, or rolled back, between the end of an epoch and its validation.
        if record.validation_due:
            self._end_epoch()
        while record.epoch < settings.epochs and not self._snapshots.steps_done():
            if stopped_early(settings, stale_epochs=record.stale_epochs):
                break
            self._train_epoch()
        if stopped_early(settings, stale_epochs=record.stale_epochs):
            self._watcher.say(early_stop_message(record.stale_epochs, best_step=record.best_step))
        if self._snapshots.saved_step() != record.step:
            self._snapshots.write()

    def _train_epoch(self) -> None:
        state, record, settings = self._state, self._state.record, self._job.train
        # A book means that the epoch has begun and its rows were restarted: a second EpochRequest would discard what
        # they have learned since.
        if record.book is None:
            if record.epoch > 0:
                self._supervision.order(messages.EpochRequest(), messages.EpochReply)
            self._begin_leases()
        elif not state.leases.trains:
            self._await_nodes()
            state.take_up_leases(gathered=True)
            # A server that dies before this arrives makes it futile: the next one waits for an order to load first.
            self._begin_round(state.members.live("trainer"))
        self._display.begin_epoch()
        self._watcher.begin(f"epoch {record.epoch + 1}/{settings.epochs}")
        state.offer(Action.TRAIN, state.data.pieces)
        began, rows_before = time.monotonic(), record.rows
        while not state.leases.table.complete and not self._snapshots.steps_done():
            self._supervision.wait(
                lambda: state.leases.table.complete or state.snapshots.due or self._snapshots.steps_done()
            )
            if not state.leases.table.complete:
                self._snapshots.write()
        state.offer(None)
        self._watcher.end()
        if self._snapshots.steps_done():
            return
        # All pieces are reported as done, but a trainer that is about to be taken for dead may have pushed more.
        self._supervision.wait(state.all_idle)
        record.epochs.append({"rows": record.rows - rows_before, "seconds": time.monotonic() - began})
        epoch = record.epoch + 1
        self._settle()
        self._display.end_epoch(epoch)
        self._end_epoch()

    def _begin_round(self, trainers: list[Member]) -> None:
        """Lockstep: tell the servers whose shares make a step."""
        if self._state.lockstep:
            request = messages.RoundRequest(ranks=[trainer.rank for trainer in trainers])
            self._supervision.order(request, messages.RoundReply)

    def _begin_leases(self) -> None:
        state = self._state
        self._await_nodes()
        # In lockstep each trainer has its own pieces, so that the same trainers take the same steps. A trainer that
        # joins after this list was made is in no step of this epoch, and must get no piece.
        trainers = state.members.live("trainer")
        self._begin_round(trainers)
        with state.changed:
            state.data.begin_epoch()
            ranges, first = state.data.ranges(trainers), state.record.next_lease
            attempts, pieces = self._job.cluster.piece_attempts, len(state.data.pieces)
            state.use_leases(LeaseTable(pieces, attempts=attempts, ranges=ranges, first=first), training=True)
        if state.data.by_node is not None and state.record.epoch == 0:
            for idle in state.data.shortages():
                self._watcher.say(idle)

    def _await_nodes(self) -> None:
        """Lockstep: give a node that has data of its own time to come back, since it cannot be taken in later."""
        if self._state.lockstep:
            self._supervision.wait(self._state.data.nodes_present)

    def _settle(self) -> None:
        """All pieces are done: count what the servers have, and have them forget what is over."""
        state, record = self._state, self._state.record
        self._failures.count_late_pushes(self._supervision.progress())
        self._display.write_lines(end=True)
        state.finish_leases(ends_epoch=True)
        reach("standing.epoch-ended")
        forget = messages.ForgetRequest(before=record.next_lease, clients=self._failures.take_departed())
        self._supervision.order(forget, messages.ForgetReply)
        if self._job.tables.evict_every == 0 and sweeps(tables=self._job.tables, slots=state.schema.slots):
            replies = self._supervision.order(messages.SweepRequest(tick=record.tick), messages.SweepReply)
            self._watcher.say(f"evicted {sum(reply.evicted for reply in replies):,} rows")

    def _end_epoch(self) -> None:
        """Validate and save, as far as the job wants it."""
        record, every = self._state.record, self._job.checkpoint.every_epochs
        keep = every > 0 and record.epoch % every == 0
        if record.validation_due:
            keep = self._evaluation.validate() or keep
        if keep:
            self._snapshots.write()
