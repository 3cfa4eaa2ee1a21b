"""The trainer: asks for pieces of the data, learns from them by the job's strategy, and reports.

It owns nothing that cannot be lost: rows and parameters live on the servers, and how much of its piece has arrived
there is known there. So it may be killed at any time, and another goes on with its piece.
"""

from __future__ import annotations

import logging
import resource
import time

import numpy as np
import torch

from clickline.config import Job
from clickline.data.leasing.pieces import piece_batches
from clickline.data.schema import Schema
from clickline.errors import ClicklineError, PeerError
from clickline.models.base import Model
from clickline.ps.coordinator_client import CoordinatorClient, MemberCallbacks
from clickline.ps.protocol import work_messages
from clickline.ps.protocol.member_messages import Figures
from clickline.ps.protocol.refusals import RemoteErrorType, remote_error_type
from clickline.ps.protocol.work_messages import Action, WorkItem
from clickline.ps.trainer.batch_reports import BatchReports
from clickline.ps.trainer.evaluated_piece import predict_piece
from clickline.ps.trainer.model_replica import ModelReplica, RemoteTable
from clickline.ps.trainer.node_data import NodeData
from clickline.ps.trainer.pserver_client import PserverClient
from clickline.ps.trainer.strategies.strategy_table import STRATEGIES
from clickline.ps.trainer.strategies.trainer_strategy import GenerationOverError
from clickline.train.monitoring.loop_liveness import LoopLiveness

log = logging.getLogger("clickline.trainer")
_PATIENCE = 2.0
"""Seconds for which the coordinator may hold back a reply."""


class Trainer:
    """One of the trainers of a job."""

    def __init__(
        self,
        *,
        job: Job,
        schema: Schema,
        model: Model,
        coordinator: CoordinatorClient,
        pservers: list[str],
        token: bytes,
        threads: int,
        data: NodeData,
        loop: LoopLiveness,
    ) -> None:
        torch.set_num_threads(threads)
        self.job, self.schema, self.coordinator, self._data, self._loop = job, schema, coordinator, data, loop
        self.pservers = PserverClient(
            job=job, addresses=pservers, token=token, name=coordinator.name, client=coordinator.client
        )
        # The replica keeps a reference to `tables`, which is filled below: their names come from its model.
        tables: dict[str, RemoteTable] = {}
        self.replica = ModelReplica(job=job, schema=schema, model=model, tables=tables, threads=threads)
        for number, name in enumerate(self.replica.model.tables):
            tables[name] = RemoteTable(self.pservers.pulling, number, wire=job.cluster.wire)
        self.strategy = STRATEGIES[job.resolved_strategy](
            job=job, replica=self.replica, pservers=self.pservers, tables=tables, rank=coordinator.rank
        )
        self._lockstep = job.resolved_strategy == "sync"
        self._round = work_messages.Round(-1, -1)
        """Generation and epoch that this trainer is in."""
        self._left: work_messages.Round | None = None
        """The round that it has left for want of data."""
        self._last_step = 0
        """With which the run ends; 0 if there is no limit."""
        self._unsettled: list[work_messages.FinishedRequest] = []
        """Pieces that are done here, but perhaps not yet at the servers."""
        self._reports = BatchReports(coordinator)
        coordinator.attach(
            MemberCallbacks(stats=self.stats, on_stop=self._stop_waiting, on_servers=self.pservers.follow)
        )

    def run(self) -> None:
        """Work until the coordinator says that the run is over."""
        while True:
            self._loop.turned()
            if self.coordinator.failure is not None:
                raise self.coordinator.failure
            request = work_messages.NextRequest(
                left=self._left,
                holding=bool(self._unsettled),
                leases=[finished.lease for finished in self._unsettled],
            )
            # Once: a reply that is lost on the way has a lease in it, and a repeated request must get the same one.
            reply = self.coordinator.ask(request, work_messages.NextReply, once=True, patience=_PATIENCE)
            if reply.do == Action.STOP:
                return
            # There is no further piece to train for now. Differences that are held back (geo) go out before this
            # trainer asks again and counts as idle.
            if reply.do != Action.TRAIN and self._unsettled:
                self.strategy.flush()
                self._settle()
            if reply.do == Action.JOIN:
                self.coordinator.join()
            elif reply.work is None:
                if reply.drained is not None:
                    self._leave_round(reply.drained)
            elif reply.do == Action.TRAIN:
                self._train(reply.work)
            else:
                self._evaluate(reply.work, self._data.valid if reply.do == Action.VALIDATE else self._data.test)

    def stats(self) -> Figures:
        """Figures for the coordinator and for metrics."""
        return {
            "rows": self._reports.rows,
            "steps": self._reports.steps,
            "rows_per_second": round(self._reports.rate, 1),
            "queue": self.strategy.queue,
            "memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            **self.pservers.counters(),
        }

    def close(self) -> None:
        self.strategy.close()
        self.pservers.close()

    def _stop_waiting(self) -> None:
        """Cancel what is under way. A process that was replaced, or has lost the coordinator, sends nothing more."""
        if self.coordinator.failure is None:
            self.pservers.cancel()
        else:
            self.pservers.close()

    def _train(self, work: WorkItem) -> None:
        generation, lease = work.generation, work.lease
        self._begin_round(work)
        # Not while differences are held back: the parameters of the servers do not contain them yet, and would replace
        # what was learned.
        if self.strategy.settled:
            self.strategy.refresh()
        rows = work.skip
        batches = piece_batches(
            self.job.data,
            self.schema,
            work.piece,
            paths=self._data.train,
            epoch=work.epoch,
            seed=self.job.seed,
            batch_size=self.job.train.batch_size,
            shuffle=True,
            skip=rows,
        )
        steps = self.strategy.steps(batches, lease=lease)
        try:
            for batch, rows, learned in steps:
                self._loop.turned()
                self._reports.add(batch, learned, step=self.strategy.step - 1)
                if self._report_due():
                    self._report()
                # In this order: when `paused` arrives, all gradients are at the servers, all steps are counted, and
                # finished pieces are known. A snapshot that is taken then is consistent.
                if self._pause_due():
                    self.strategy.flush()
                    self._report()
                    self._settle()
                    if not self._pause(lease, rows, generation):
                        self.strategy.abandon()
                        return
            self._report()
            # With geo a piece may end before its differences are sent; it is finished once the servers have all of it.
            self._unsettled.append(work_messages.FinishedRequest(lease=lease, rows=rows, generation=generation))
            self.strategy.end_piece()
            self._settle()
        except GenerationOverError:
            log.info("generation %d is over; going back to the last checkpoint", generation)
            self._reports.discard()
            self.strategy.abandon()
            self._wait_for_generation(generation)
        finally:
            steps.close()
            batches.close()

    def _begin_round(self, work: WorkItem) -> None:
        round_ = work_messages.Round(work.generation, work.epoch)
        if round_ == self._round:
            return
        self._round = round_
        # Random numbers, of dropout say, follow from the seed and the rank: other trainers draw others.
        entropy = (self.job.seed, self.coordinator.rank, work.generation, work.epoch)
        torch.manual_seed(int(np.random.SeedSequence(entropy).generate_state(1)[0]))
        self._last_step = work.last_step
        self.strategy.begin(generation=work.generation, start=work.start, warm=work.warm)

    def _settle(self) -> None:
        """Report the pieces of which everything has arrived at the servers."""
        if self.strategy.settled:
            done, self._unsettled = self._unsettled, []
            for finished in done:
                self.coordinator.ask(finished, work_messages.FinishedReply, once=True)

    def _pause_due(self) -> bool:
        announced, step = self.coordinator.announced, self.strategy.step
        if not self._lockstep:
            return announced.pause
        # In lockstep all must pause at the same step, or those who go on would wait for those who have paused.
        every, last = self.job.checkpoint.every_steps, self._last_step
        wanted = announced.pause_at is not None and step >= announced.pause_at
        return wanted or (every > 0 and step % every == 0) or (last > 0 and step >= last)

    def _pause(self, lease: int, rows: int, generation: int) -> bool:
        """Stand still until the snapshot is taken. False: the lease is void."""
        request = work_messages.PausedRequest(
            rank=self.coordinator.rank, progress=[(lease, rows)], generation=generation, step=self.strategy.step
        )
        while True:
            reply = self.coordinator.ask(request, work_messages.PausedReply, self.replica.buffers, patience=_PATIENCE)
            self._loop.turned()
            if reply.generation != generation or reply.abandon:
                return False
            if not reply.wait:
                return True

    def _wait_for_generation(self, old: int) -> None:
        coordinator = self.coordinator
        while coordinator.announced.generation == old and not coordinator.stopping and not coordinator.failure:
            self._loop.turned()
            time.sleep(0.02)

    def _leave_round(self, drained: work_messages.Round) -> None:
        """Have the others go on without this trainer, which may never have been in step."""
        self.strategy.leave_round(generation=drained.generation)
        self._left = drained

    def _report_due(self) -> bool:
        lockstep = self._lockstep and self.strategy.step % self.job.train.log_every == 0
        return lockstep or self._reports.due

    def _report(self) -> None:
        self._reports.send(generation=self._round.generation, tick=self.strategy.tick)

    def _evaluate(self, work: WorkItem, paths: list[str]) -> None:
        self.replica.take(self.pservers.dense(want="average"))
        arrays = predict_piece(self.replica, work.piece, paths=paths)
        request = work_messages.FinishedRequest(
            lease=work.lease, rows=len(arrays["labels"]), generation=work.generation
        )
        self.coordinator.ask(request, work_messages.FinishedReply, arrays, once=True)


def report_failure(coordinator: CoordinatorClient, error: Exception) -> None:
    """Tell the coordinator why this trainer ends, if it is a reason that would end another one just the same."""
    refused = isinstance(error, PeerError) and remote_error_type(error) == RemoteErrorType.MODEL
    # Errors of the job, the data, the model or a checkpoint. After any other error the run goes on: the leases go to
    # other trainers.
    if refused or (isinstance(error, ClicklineError) and error.exit_code in (3, 4, 5, 6)):
        request = work_messages.FailedRequest(reason=f"{coordinator.name}: {error}")
        coordinator.ask(request, work_messages.FailedReply)
