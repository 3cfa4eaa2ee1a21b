"""The coordinator: who takes part, who reads what, when all pause for a checkpoint, when an epoch is over.

`run` is the whole story in order. Everything that others ask arrives on other threads and only changes what `run`
waits for; one lock guards it all. It never touches a row: a slow coordinator slows nobody but at the seams between
pieces.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from clickline import _native
from clickline.config import Job
from clickline.data.leasing import pieces
from clickline.data.leasing.leases import LeaseTable
from clickline.data.schema import Schema
from clickline.errors import CheckpointError, ClicklineError, ReplacedError
from clickline.progress import Watcher
from clickline.ps.coordinator.handlers import Desk
from clickline.ps.coordinator.model_evaluation import Examining
from clickline.ps.coordinator.pserver_admin import Orders
from clickline.ps.coordinator.record import Standing, StandingFile
from clickline.ps.coordinator.status_report import status_of
from clickline.ps.coordinator.supervision import RolledBack
from clickline.train.checkpoints import checkpoint_files
from clickline.train.early_stopping import early_stop_message, enough, stopped_early
from clickline.train.interrupts import TrainingInterrupted, interruption
from clickline.train.monitoring.journal import Journal
from clickline.train.monitoring.metrics_server import MetricsServer, metrics_place
from clickline.train.monitoring.prometheus_metrics import Labelled, run_metrics
from clickline.train.monitoring.run_health import complaints_of

_LOOK_EVERY = 0.5
"""Seconds between two looks whether the run's directory is still ours."""


class Coordinator(Examining):
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
        file: StandingFile,
        standing: Standing | None = None,
        taking_over: bool = False,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """`environ` may say where metrics are answered; this process's own if None."""
        self.sync = job.way == "sync"
        standing = standing or Standing()
        desk = Desk(job=job, schema=schema, directory=directory, standing=standing, sync=self.sync, file=file)
        super().__init__(job=job, desk=desk, watcher=watcher, schema=schema, directory=directory)
        self.started = time.monotonic()
        self.coming: Callable[[], int] | None = None
        """How many trainers are there or being started, if somebody knows."""
        self._token = token
        self._taking_over = taking_over
        """A coordinator before this one has died, and the others may have gone on meanwhile."""
        self._train = pieces.split_into_pieces(job.data, job.data.train, **self._cutting())
        if standing.book is not None and standing.book["pieces"] != len(self._train):
            raise CheckpointError(pieces.changed_data(standing.book["pieces"], len(self._train)))
        self._wire = _native.WireServer(
            address, token=token, job=job.name, name="coordinator.0", handler=self.desk.handle, max_frame=1 << 30
        )
        self.address: str = self._wire.address
        self.desk.address = self.address
        self._metrics_server: MetricsServer | None = None
        place = metrics_place(job, role="coordinator", rank=0, environ=environ)
        if place is not None:
            self._metrics_server = MetricsServer(
                place,
                labels=Labelled(run=job.name, role="coordinator", rank="0"),
                families=lambda make: run_metrics(make, self.status()),
                complaints=lambda: list(complaints_of(self.status())),
                status=self.status,
            )
            self.desk.metrics = self._metrics_server.address

    def run(self, *, look: Callable[[], None] = lambda: None) -> dict[str, Any]:
        """From the first join to the last figure. `look` is called often; it may raise to end the run."""
        self._look = self._watched(look)
        resumed = self.standing.step if self.standing.step > self.standing.first_step else None
        check = self.desk.file.check_holder
        self._journal = Journal(self.directory, tensorboard=self.job.train.tensorboard, resumed_at=resumed, check=check)
        self.desk.journal, self.desk.say = self._journal, self.watcher.say
        try:
            with self._interrupts:
                try:
                    return self._run()
                except KeyboardInterrupt as error:
                    raise self._interrupted(error) from error
        except BaseException as error:
            own = self._own_failure() or error
            if isinstance(own, ReplacedError):
                self.desk.overtake(str(own))  # everybody goes on, with another coordinator
            else:
                stopped = isinstance(own, TrainingInterrupted)
                self.desk.stop(
                    str(own) if stopped else f"{type(own).__name__}: {own}",
                    phase="interrupted" if stopped else "failed",
                )
            if own is not error:
                raise own from error
            raise
        finally:
            self.watcher.end()
            with self.desk.changed:  # reports may still come in
                self.desk.journal = None
            self._journal.close()

    def _interrupted(self, error: KeyboardInterrupt) -> TrainingInterrupted:
        """What an interrupted run says, after a last cut if that can be had in time."""
        before, name = self.standing.checkpoint, self._interrupts.name
        why = str(error) if not self._interrupts.asked else self._last_cut()
        newest = self.standing.checkpoint
        return interruption(
            name,
            directory=self.directory,
            step=self.standing.step,
            first_step=self.standing.first_step,
            newest=None if newest is None else Path(newest),
            written=newest is not None and newest != before,
            why=why,
        )

    def _last_cut(self) -> str:
        """A cut for a run that is interrupted; empty, or why there is none."""
        desk, standing, limit = self.desk, self.standing, self.job.checkpoint.interrupt_timeout
        self._interrupts.acknowledge()
        if not desk.begun or desk.final or self._saved_step() == standing.step:
            return ""
        if limit == 0:
            return "checkpoint.interrupt_timeout is 0"
        self.watcher.end()
        self.watcher.say("interrupted: writing a checkpoint; Ctrl+C again ends at once")
        look, until = self._look, time.monotonic() + limit

        def in_time() -> None:
            if time.monotonic() > until:
                raise CheckpointError(f"it took longer than {limit:g} s, checkpoint.interrupt_timeout")
            look()

        self._look = in_time
        try:
            training = desk.has_book
            if self.sync and training:
                desk.cut_soon()
                self._wait(lambda: desk.book.complete or desk.cut_wanted())
            self._cut(halt=training)  # predictions change nothing, so nobody need stop who makes some
        except (ClicklineError, OSError, RolledBack, KeyboardInterrupt) as error:
            return str(error) or "a process died meanwhile"
        return ""

    def _saved_step(self) -> int | None:
        path = self.standing.checkpoint
        return None if path is None else checkpoint_files.read(Path(path)).step

    def _watched(self, look: Callable[[], None]) -> Callable[[], None]:
        """`look`, and now and then whether this process may and can still write to the run's directory."""
        looked = time.monotonic()

        def both() -> None:
            nonlocal looked
            if time.monotonic() - looked > _LOOK_EVERY:
                looked = time.monotonic()
                own = self._own_failure()
                if own is not None:
                    raise own
            look()

        return both

    def _own_failure(self) -> ClicklineError | None:
        """That this process was replaced, or that a thread which answers others could not write what it must."""
        try:
            self.desk.file.check_holder()
        except ReplacedError as error:
            return error
        except OSError:  # whoever must write will say it
            pass
        return self.desk.file.failure or (None if self._journal is None else self._journal.failure)

    def _run(self) -> dict[str, Any]:
        self._gather()
        while True:
            try:
                self._train_all()
                if self.desk.conclude():
                    break
            except RolledBack:
                pass
            self._roll_back()
        if self.job.data.test and not self.standing.test:
            self._test()
        self.desk.enter("finished")
        return self.result()

    def dismiss(self) -> None:
        """Tell everybody that it is over; trainers leave first, then servers."""
        self.desk.stop("the run is over")

    def account(self) -> dict[str, Any]:
        """What happened on the way."""
        standing = self.standing
        return {
            "strategy": self.job.way,
            "generation": standing.generation,
            "repeated_rows": standing.repeated_rows,
            "lost_pushes": self.desk.lost_pushes(),
            "retries": self.desk.retries(),
            "set_aside": standing.set_aside,
            "epochs": standing.epochs,
            "cuts": standing.cuts,
            "pause_seconds": standing.pause_seconds,
            "faults": standing.faults,
        }

    def close(self, *, patience: float = 5.0) -> None:
        """Let go of everybody. Those who still ask are told that it is over, for a while."""
        self.dismiss()
        if self.desk.overtaken is None:
            self.desk.await_farewells(patience)
        if self._orders is not None:
            self._orders.close()
        self._errands.shutdown()
        self._wire.close()
        if self._metrics_server is not None:
            self._metrics_server.close()
        self.desk.write_status()

    def result(self) -> dict[str, Any]:
        """What the run came to."""
        standing, chosen = self.standing, self.chosen()
        return {
            "directory": self.directory,
            "checkpoint": chosen.path,
            "steps": standing.step,
            "rows": standing.rows,
            "seconds": time.monotonic() - self.started,
            "valid": chosen.manifest["valid"],
            "test": standing.test,
        }

    # The parts of a run, in the order in which they come

    def _gather(self) -> None:
        """Wait for the servers, and for the trainers that the job wants."""
        cluster, desk = self.job.cluster, self.desk
        if (idle := pieces.shortage(len(self._train), trainers=cluster.trainers)) is not None:
            self.watcher.say(idle)
        self.watcher.begin(f"waiting for {cluster.pservers} servers and {cluster.trainers} trainers")
        if self._taking_over and self.standing.book is not None:
            self._go_on_with_book()  # before anybody can say that a lease of it is done
        desk.open(taking_over=self._taking_over)
        self._await(lambda: desk.ready(pservers=cluster.pservers, held=self._taking_over))
        self._orders = Orders(
            job=self.job,
            schema=self.schema,
            addresses=[peer.address for peer in desk.roster.live("pserver")],
            token=self._token,
            client=desk.client,
            file=desk.file,
        )
        desk.moved = self._orders.moved
        if self._taking_over:
            self._take_over()
        else:
            self._await(lambda: desk.ready(pservers=cluster.pservers, trainers=cluster.trainers))
        desk.begun = True

    def _take_over(self) -> None:
        """Others have lived on without a coordinator. Whoever holds a lease is awaited for a while, then given up."""
        desk, cluster, standing = self.desk, self.job.cluster, self.standing
        until = time.monotonic() + cluster.evict_after
        self._wait(lambda: desk.holders_here() or time.monotonic() > until)
        self._await(lambda: desk.ready(pservers=0, trainers=1))
        if self.sync or desk.stale or len(desk.strangers) == cluster.pservers:
            # Lockstep is known to nobody else, and servers that all are new have nothing but the last cut.
            standing.faults.append("a new coordinator took over")
            self._roll_back()
            return
        self._await(lambda: desk.ready(pservers=cluster.pservers))
        desk.presume_dead()

    def _train_all(self) -> None:
        """All epochs that are left, and the last cut."""
        standing = self.standing
        settings = self.job.train
        if standing.validation_due:
            self._end_epoch()
        while standing.epoch < settings.epochs and not self._enough():
            if stopped_early(settings, stale_epochs=standing.stale_epochs):
                break
            self._epoch()
        if stopped_early(settings, stale_epochs=standing.stale_epochs):
            self.watcher.say(early_stop_message(standing.stale_epochs, best_step=standing.best_step))
        if self._saved_step() != standing.step:
            self._cut()

    def _epoch(self) -> None:
        standing, desk, settings = self.standing, self.desk, self.job.train
        if standing.book is None:
            if standing.epoch > 0:
                self._restart_rows()
            self._begin_epoch()
        elif not desk.has_book:
            self._go_on_with_book()
            if self.sync:
                # A server that dies before this arrives makes it futile: the next one waits for an order to load first.
                self._order("round", {"ranks": [peer.rank for peer in desk.roster.live("trainer")]})
        desk.begin_epoch()
        self.watcher.begin(f"epoch {standing.epoch + 1}/{settings.epochs}")
        desk.offer("train", self._train)
        began, before = time.monotonic(), standing.rows
        while not desk.book.complete and not self._enough():
            self._wait(lambda: desk.book.complete or desk.cut_wanted() or self._enough())
            if not desk.book.complete:
                self._cut()
        desk.offer(None, [])
        self.watcher.end()
        if self._enough():
            return
        self._wait(desk.all_still)
        standing.epochs.append({"rows": standing.rows - before, "seconds": time.monotonic() - began})
        desk.settle(self._progress())
        desk.write_lines(end=True)
        desk.close_book()
        self._order("forget", {"before": standing.next_lease, "clients": desk.forgotten()})
        if desk.evicts and self.job.tables.evict_every == 0:
            removed = sum(reply["evicted"] for reply in self._order("sweep", {"tick": standing.tick}))
            self.watcher.say(f"evicted {removed:,} rows")
        standing.epoch += 1
        standing.validation_due = bool(self.job.data.valid)
        self._end_epoch()

    def _end_epoch(self) -> None:
        """Validate and save, as far as the job wants it."""
        standing, every = self.standing, self.job.checkpoint.every_epochs
        keep = every > 0 and standing.epoch % every == 0
        if standing.validation_due:
            keep = self._validate() or keep
        if keep:
            self._cut()

    def _restart_rows(self) -> None:
        problems = [reply["unreadable"] for reply in self._order("epoch") if "unreadable" in reply]
        if problems:
            raise CheckpointError("; ".join(problems))

    def _go_on_with_book(self) -> None:
        """The leases of an epoch that was begun before this process, or before a roll-back."""
        book = self.standing.book or {}
        self.desk.take_book(LeaseTable.from_dict(book, first=self.standing.next_lease), training=True)

    def _begin_epoch(self) -> None:
        standing, desk = self.standing, self.desk
        names = [peer.name for peer in desk.roster.live("trainer")]
        if self.sync:
            self._order("round", {"ranks": [peer.rank for peer in desk.roster.live("trainer")]})
        attempts = self.job.cluster.piece_attempts
        desk.take_book(
            LeaseTable(
                len(self._train),
                attempts=attempts,
                static=names if self.sync else None,
                first=standing.next_lease,
            ),
            training=True,
        )

    def _cut(self, *, halt: bool = True) -> None:
        """One consistent cut: everybody pauses with nothing under way, the servers save, everybody goes on."""
        desk, standing = self.desk, self.standing
        began = time.monotonic()
        desk.pause()
        try:
            if halt:
                self._wait(desk.all_still)
            paused = time.monotonic()
            directory = self.directory / "checkpoints"
            facts = {
                "step": standing.step,
                "standing": desk.facts(),
                "job": self.job.model_dump(mode="json"),
                "schema": self.schema.to_dict(),
                # Figures of an earlier step are not this checkpoint's.
                "valid": standing.valid if standing.valid_step == standing.step else {},
                "valid_files": standing.valid_files if standing.valid_step == standing.step else [],
                "tick": standing.tick,
            }
            servers = self._servers()
            checkpoint = self._errand(lambda: servers.save(directory, facts=facts, buffers=desk.buffers))
            now = time.monotonic()
            self.verified.add(str(checkpoint.path))
            desk.cut_done(checkpoint.path, pause=now - paused, seconds=now - began)
        finally:
            if self._enough():  # or who waits for work would take a piece, and train past the last checkpoint
                desk.offer(None, [])
            desk.go_on()
        checkpoint_files.prune(
            directory,
            newest=checkpoint.step,
            keep=self.job.checkpoint.keep,
            also=standing.best_step,
            check=desk.file.check_holder,
        )
        self.watcher.say(
            f"checkpoint of step {standing.step:,}: trainers stood still for {now - paused:.2f} s "
            f"({paused - began:.2f} s to come to a halt)"
        )

    def _roll_back(self) -> None:
        """Everybody goes on from the last cut, as if nothing since had happened."""
        while True:
            try:
                self._go_back()
                return
            except RolledBack:  # a server has died since it had loaded: the one in its place has nothing yet
                continue

    def _go_back(self) -> None:
        desk, standing = self.desk, self.standing
        cluster = self.job.cluster
        self.watcher.end()
        desk.offer(None, [])
        self._await(lambda: desk.ready(pservers=cluster.pservers, held=True), rolling=True)
        # With the trainers of before, the same steps are taken again. Fewer will do if one does not come back.
        until = time.monotonic() + cluster.warn_after
        self._wait(lambda: self._all_back() or (self.coming is None and time.monotonic() > until), rolling=True)
        self._await(lambda: desk.ready(pservers=0, trainers=1), rolling=True)
        found = None if standing.checkpoint is None else checkpoint_files.read(Path(standing.checkpoint))
        desk.rewind(found)
        where = "the beginning" if found is None else found.path.name
        why = standing.faults[-1] if standing.faults else "servers and trainers have parted"
        self.watcher.say(f"rolling back to {where} as generation {standing.generation}: {why}")
        self._load(standing.checkpoint, rolling=True)
        desk.loaded()
        if self._journal is not None:
            self._journal.rewind(standing.step)

    def _all_back(self) -> bool:
        expected = self.job.cluster.trainers
        if self.coming is not None:
            expected = min(expected, self.coming())
        return len(self.desk.roster.live("trainer")) >= expected

    # What the parts need

    def _await(self, there: Callable[[], bool], *, rolling: bool = False) -> None:
        """For others to be there, as long as the job's patience lasts."""
        self._wait(there, missing=self.desk.missing, patience=self.job.cluster.start_timeout, rolling=rolling)

    def status(self) -> dict[str, Any]:
        """As it is written to status.json."""
        with self.desk.changed:
            return status_of(self.desk)

    def _enough(self) -> bool:
        return enough(self.job.train, step=self.standing.step, first_step=self.standing.first_step)
