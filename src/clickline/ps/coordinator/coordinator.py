"""The coordinator: who takes part, who reads what, when all pause for a snapshot, when an epoch is over.

`run` is the whole story in order. Everything that members ask arrives on other threads (handlers/) and only changes the
state that `run` waits on; one lock guards it. The coordinator never touches a row: a slow one slows nobody but at the
seams between pieces.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from clickline import _native
from clickline.config import Job
from clickline.data.schema import Schema
from clickline.errors import ReplacedError
from clickline.progress import Watcher
from clickline.ps.coordinator.directory_guard import DirectoryGuard
from clickline.ps.coordinator.epochs import Epochs
from clickline.ps.coordinator.handlers.context import HandlerContext
from clickline.ps.coordinator.handlers.request_dispatcher import RequestDispatcher
from clickline.ps.coordinator.model_evaluation import ModelEvaluation, chosen_checkpoint
from clickline.ps.coordinator.snapshot_rollback import Rollback
from clickline.ps.coordinator.snapshot_writer import SnapshotWriter
from clickline.ps.coordinator.startup import Startup
from clickline.ps.coordinator.state.failures import FailureDetector
from clickline.ps.coordinator.state.record import RecordFile, RunRecord
from clickline.ps.coordinator.state.run_state import RunState
from clickline.ps.coordinator.status_report import Status, StatusFile, run_status
from clickline.ps.coordinator.supervision import RollbackError, Supervision
from clickline.ps.coordinator.training_display import TrainingDisplay
from clickline.ps.protocol.member_messages import JsonObject
from clickline.train.evaluation.metric_lines import TrainingLines
from clickline.train.interrupts import TrainingInterrupted, interruption
from clickline.train.monitoring.journal import Journal
from clickline.train.monitoring.loop_liveness import silent_loop
from clickline.train.monitoring.metrics_place import metrics_place
from clickline.train.monitoring.run_health import ENDED, complaints_of
from clickline.train.monitoring.run_progress import RunProgress
from clickline.train.run_files.run_result import Result, write_result_file

if TYPE_CHECKING:
    from clickline.train.monitoring.metrics_server import MetricsServer

_LONGEST_TURN = 60.0
"""Seconds for one turn of the loop, which takes a fraction of one: whatever takes long is done beside it."""


@dataclass(frozen=True, slots=True)
class StartingPoint:
    """Where a coordinator begins."""

    record: RunRecord
    taking_over: bool = False
    """A coordinator before this one has died, and the others may have gone on meanwhile."""
    guessed: bool = False
    """Its record was lost, so everybody goes back to the newest checkpoint."""
    verified: frozenset[str] = frozenset()
    """Checkpoints that were read through by this process."""


class Coordinator:
    """One run. `run` returns what came of it, or raises what stopped it."""

    def __init__(
        self,
        *,
        job: Job,
        schema: Schema,
        directory: Path,
        address: str,
        token: bytes,
        watcher: Watcher,
        file: RecordFile,
        start: StartingPoint,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """`environ` may say where metrics are answered; this process's own if None."""
        self.job, self.directory, self._watcher, self._token = job, directory, watcher, token
        self._started = time.monotonic()
        self._running = False
        self._progress = RunProgress(epochs=job.train.epochs, max_steps=job.train.max_steps)
        self._start = start
        record, lockstep = start.record, job.resolved_strategy == "sync"
        self.state = RunState(
            job=job, schema=schema, directory=directory, record=record, lockstep=lockstep, record_file=file
        )
        self.state.data.open()
        self.state.lifecycle.stale_servers = start.guessed
        self.failures = FailureDetector(self.state)
        self._display = TrainingDisplay(self.state, watcher, lines=TrainingLines(job.train.log_format))
        self._status_file = StatusFile(self.state, status=self.status)
        self._supervision = Supervision(
            state=self.state,
            failures=self.failures,
            display=self._display,
            status_file=self._status_file,
            watcher=watcher,
            verified=set(start.verified),
        )
        context = HandlerContext(
            state=self.state,
            failures=self.failures,
            on_report=self._display.write_lines,
            on_server_moved=self._supervision.server_moved,
        )
        dispatcher = RequestDispatcher(context)
        self._wire = _native.WireServer(
            address, token=token, job=job.name, name="coordinator.0", handler=dispatcher.handle, max_frame=1 << 30
        )
        self.address: str = self._wire.address
        self._metrics_server: MetricsServer | None = None  # it may ask for the status as soon as it is open
        self._metrics_server = self._open_metrics(environ)

    def _open_metrics(self, environ: Mapping[str, str] | None) -> MetricsServer | None:
        address = metrics_place(self.job, role="coordinator", rank=0, environ=environ)
        if address is None:
            return None
        from clickline.train.monitoring.metrics_server import MetricsServer
        from clickline.train.monitoring.prometheus_metrics import Labelled, run_metrics

        return MetricsServer(
            address,
            labels=Labelled(run=self.job.name, role="coordinator", rank="0"),
            families=lambda make: run_metrics(make, self.status()),
            complaints=lambda: list(complaints_of(self.status())),
            status=self.status,
            not_live=self.not_live,
            not_ready=self.not_ready,
        )

    def not_live(self) -> list[str]:
        """A sentence if the loop of the coordinator hangs."""
        turned_at = self._supervision.turned_at if self._running else None
        return silent_loop("the coordinator's loop", turned_at, limit=_LONGEST_TURN, now=time.monotonic())

    def not_ready(self) -> list[str]:
        """A sentence if nobody can join."""
        phase = self.state.record.phase
        return [f"the run is {phase}"] if phase in ENDED else [] if self._running else ["the run has not begun"]

    def run(
        self, *, poll: Callable[[], None] = lambda: None, expected_trainers: Callable[[], int] | None = None
    ) -> Result:
        """From the first join to the last figure. `poll` is called often; it may raise to end the run.

        `expected_trainers`: how many are there or being started, if whoever starts them is here to tell.
        """
        record = self.state.record
        resumed = record.step if record.step > record.first_step else None
        check = self.state.record_file.check_holder
        journal = Journal(self.directory, tensorboard=self.job.train.tensorboard, resumed_at=resumed, check=check)
        guard = DirectoryGuard(self.state.record_file, journal)
        self._supervision.poll_by(guard.checked(poll))
        self._display.begin(journal)
        self._running = True
        try:
            with self._supervision.interrupts:
                return self._run_interruptible(journal, expected_trainers)
        except BaseException as error:
            # The cause may be a lost directory, or a write that failed on the thread of a handler; the error that was
            # raised here is then only its consequence.
            own = guard.failure() or error
            if isinstance(own, ReplacedError):
                self.state.supersede(str(own))  # the members go on, with another coordinator
            else:
                stopped = isinstance(own, TrainingInterrupted)
                self.state.stop(
                    str(own) if stopped else f"{type(own).__name__}: {own}",
                    phase="interrupted" if stopped else "failed",
                )
            if own is not error:
                raise own from error
            raise
        finally:
            self._running = False
            self._watcher.end()
            self._display.end()
            journal.close()

    def _run_interruptible(self, journal: Journal, expected_trainers: Callable[[], int] | None) -> Result:
        snapshots = SnapshotWriter(state=self.state, supervision=self._supervision, watcher=self._watcher)
        try:
            return self._run(journal, snapshots, expected_trainers)
        except KeyboardInterrupt as error:
            record, interrupts = self.state.record, self._supervision.interrupts
            before, name = record.checkpoint, interrupts.name
            why = str(error) if not interrupts.asked else snapshots.write_before_interruption()
            newest = record.checkpoint
            raise interruption(
                name,
                directory=self.directory,
                step=record.step,
                first_step=record.first_step,
                newest=None if newest is None else Path(newest),
                written=newest is not None and newest != before,
                why=why,
            ) from error

    def _run(self, journal: Journal, snapshots: SnapshotWriter, expected_trainers: Callable[[], int] | None) -> Result:
        state = self.state
        evaluation = ModelEvaluation(state=state, supervision=self._supervision, watcher=self._watcher, journal=journal)
        rollback = Rollback(state=state, supervision=self._supervision, watcher=self._watcher, journal=journal)
        epochs = Epochs(
            state=state,
            supervision=self._supervision,
            failures=self.failures,
            snapshots=snapshots,
            evaluation=evaluation,
            display=self._display,
            watcher=self._watcher,
        )
        startup = Startup(
            state=state, supervision=self._supervision, failures=self.failures, watcher=self._watcher, token=self._token
        )
        if startup.run(taking_over=self._start.taking_over):
            rollback.run(expected_trainers=expected_trainers)
        state.lifecycle.begun = True
        while True:
            try:
                epochs.train_all()
                # A process may have died after the last wait of `train_all`: in lockstep its death is undone by a
                # rollback before training ends.
                if state.conclude():
                    break
            except RollbackError:
                pass
            rollback.run(expected_trainers=expected_trainers)
        if self.job.data.test and not state.record.test:
            evaluation.test()
        result = self._result()
        # Before the run is said to be finished: if this process dies from here on, nothing is left to be done. It is
        # written again when all have left, who may have something to count until then.
        write_result_file(state.record_file.lock, result, self.account())
        state.enter("finished")
        return result

    def status(self) -> Status:
        """As it is written to status.json."""
        metrics_address = "" if self._metrics_server is None else self._metrics_server.address
        with self.state.changed:
            return run_status(
                self.state, address=self.address, metrics_address=metrics_address, progress=self._progress
            )

    def _result(self) -> Result:
        record, chosen = self.state.record, chosen_checkpoint(self.state)
        return Result(
            directory=self.directory,
            checkpoint=chosen.path,
            steps=record.step,
            rows=record.rows,
            seconds=time.monotonic() - self._started,
            valid=chosen.manifest["valid"],
            test=record.test,
        )

    def account(self) -> JsonObject:
        """What happened during the run, for result.json."""
        record = self.state.record
        lost_pushes, retries = self.state.losses()
        return {
            "strategy": self.job.resolved_strategy,
            "generation": record.generation,
            "repeated_rows": record.repeated_rows,
            "lost_pushes": lost_pushes,
            "retries": retries,
            "set_aside": record.set_aside,
            "nodes": msgspec.to_builtins(self.state.data.node_rows(self.state.leases.of_epoch)),
            "epochs": record.epochs,
            "cuts": record.cuts,
            "pause_seconds": record.pause_seconds,
            "faults": record.faults,
        }

    def dismiss(self) -> None:
        """Tell everybody that the run is over; trainers leave first, then servers."""
        self.state.stop("the run is over")

    def close(self, *, patience: float = 5.0) -> None:
        """Close all connections. Members that still ask are told that the run is over, for `patience` seconds."""
        self.dismiss()
        # After a replacement the members follow the other coordinator, and none of them leaves this one.
        if self.state.lifecycle.superseded is None:
            self.state.await_departures(patience)
        self._supervision.close()
        self._wire.close()
        if self._metrics_server is not None:
            self._metrics_server.close()
        self._status_file.write()
