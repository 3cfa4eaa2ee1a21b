"""The coordinator: who takes part, who reads what, when all pause for a checkpoint, when an epoch is over.

`run` is the whole story in order. Everything that others ask arrives on other threads and only changes what `run` waits for; one lock
guards it all. It never touches a row: a slow coordinator slows nobody but at the seams between pieces.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from prometheus_client.core import Metric

from clickline import _native
from clickline.config import Job
from clickline.data import pieces
from clickline.data.leases import LeaseBook
from clickline.data.schema import Schema
from clickline.errors import PeerError
from clickline.train import checkpoints
from clickline.train.cluster.desk import Desk
from clickline.train.cluster.metering import Labelled, Meter, run_metrics
from clickline.train.cluster.orders import Orders
from clickline.train.cluster.standing import Standing
from clickline.train.cluster.statuses import status_of
from clickline.train.cluster.tallies import Scores
from clickline.train.journal import Journal
from clickline.train.watching import Watcher

log = logging.getLogger("clickline.coordinator")


class RolledBack(Exception):
    """Everybody goes on from the last cut; whatever was being done is void."""


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
        standing: Standing | None = None,
    ) -> None:
        self.job, self.schema, self.directory = job, schema, directory
        self.watcher = watcher
        self.started = time.monotonic()
        self.sync = job.way == "sync"
        self.desk = Desk(job=job, schema=schema, directory=directory, standing=standing or Standing(), sync=self.sync)
        self._token = token
        self._orders: Orders | None = None
        self._train = pieces.cut(job.data, job.data.train, **self._cutting())
        self._journal: Journal | None = None
        self._wire = _native.WireServer(
            address, token=token, job=job.name, name="coordinator.0", handler=self.desk.handle, max_frame=1 << 30
        )
        self.address: str = self._wire.address
        self.desk.address = self.address
        self._meter: Meter | None = None
        if job.cluster.metrics:
            self._meter = Meter(run=job.name, role="coordinator", rank=0, families=self._metrics)
            self.desk.metrics = self._meter.address

    @property
    def standing(self) -> Standing:
        return self.desk.standing

    def run(self, *, look: Callable[[], None] = lambda: None) -> dict[str, Any]:
        """From the first join to the last figure. `look` is called often; it may raise to end the run."""
        self._look = look
        standing, settings = self.standing, self.job.train
        resumed = standing.step if standing.step else None
        self._journal = Journal(self.directory, tensorboard=settings.tensorboard, resumed_at=resumed)
        self.desk.journal = self._journal
        try:
            self._gather()
            while standing.epoch < settings.epochs and not self._stopped_early() and not self._enough():
                try:
                    self._epoch()
                except RolledBack:
                    self._roll_back()
            if standing.checkpoint is None or checkpoints.read(Path(standing.checkpoint)).step != standing.step:
                self._cut()
            self.desk.final = True
            if self.job.data.test and not standing.test:
                self._test()
            self.desk.enter("finished")
            return self.result()
        except BaseException as error:
            self.desk.stop(f"{type(error).__name__}: {error}")
            raise
        finally:
            self.watcher.end()
            self._journal.close()

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
            "set_aside": standing.set_aside,
            "cuts": standing.cuts,
            "pause_seconds": standing.pause_seconds,
            "faults": standing.faults,
        }

    def close(self) -> None:
        """Let go of everybody. Those who still ask are told that it is over."""
        self.dismiss()
        self.desk.await_farewells(2.0)
        if self._orders is not None:
            self._orders.close()
        self._wire.close()
        if self._meter is not None:
            self._meter.close()
        self.desk.write_status()

    def result(self) -> dict[str, Any]:
        """What the run came to."""
        standing = self.standing
        step = standing.best_step if standing.best_step is not None else standing.step
        return {
            "directory": self.directory,
            "checkpoint": self.directory / "checkpoints" / f"step-{step:010d}",
            "steps": standing.step,
            "rows": standing.rows,
            "seconds": time.monotonic() - self.started,
            "valid": standing.valid,
            "test": standing.test,
        }

    # The parts of a run, in the order in which they come

    def _gather(self) -> None:
        """Wait for the servers, and for the trainers that the job wants."""
        cluster, desk = self.job.cluster, self.desk
        self.watcher.begin(f"waiting for {cluster.pservers} servers and {cluster.trainers} trainers")
        desk.open()
        self._wait(lambda: desk.ready(pservers=cluster.pservers), missing=desk.missing, patience=cluster.start_timeout)
        self._orders = Orders(
            job=self.job,
            schema=self.schema,
            addresses=[peer.address for peer in desk.roster.live("pserver")],
            token=self._token,
            client=desk.client,
        )
        desk.moved = self._orders.moved
        self._wait(
            lambda: desk.ready(pservers=cluster.pservers, trainers=cluster.trainers),
            missing=desk.missing,
            patience=cluster.start_timeout,
        )

    def _epoch(self) -> None:
        standing, desk, settings = self.standing, self.desk, self.job.train
        if standing.book is None:
            if standing.epoch > 0:
                self._order("epoch")
            self._begin_epoch()
        else:
            desk.take_book(LeaseBook.from_dict(standing.book, first=standing.next_lease))
        self.watcher.begin(f"epoch {standing.epoch + 1}/{settings.epochs}")
        desk.offer("train", self._train)
        while not desk.book.complete and not self._enough():
            self._wait(lambda: desk.book.complete or desk.cut_wanted() or self._enough())
            if not desk.book.complete:
                self._cut()
        desk.offer(None, [])
        self.watcher.end()
        if self._enough():
            return
        self._wait(desk.all_still)
        desk.write_lines(end=True)
        desk.close_book()
        if desk.evicts and self.job.tables.evict_every == 0:
            removed = sum(reply["evicted"] for reply in self._order("sweep", {"tick": standing.tick}))
            self.watcher.say(f"evicted {removed:,} rows")
        standing.epoch += 1
        every = self.job.checkpoint.every_epochs
        keep = every > 0 and standing.epoch % every == 0
        if self.job.data.valid:
            keep = self._validate() or keep
        if keep:
            self._cut()

    def _begin_epoch(self) -> None:
        standing, desk = self.standing, self.desk
        names = [peer.name for peer in desk.roster.live("trainer")]
        if self.sync:
            self._order("round", {"ranks": [peer.rank for peer in desk.roster.live("trainer")]})
        attempts = self.job.cluster.piece_attempts
        desk.take_book(
            LeaseBook(
                len(self._train),
                attempts=attempts,
                static=names if self.sync else None,
                first=standing.next_lease,
            )
        )

    def _cut(self) -> None:
        """One consistent cut: everybody pauses with nothing under way, the servers save, everybody goes on."""
        desk, standing = self.desk, self.standing
        began = time.monotonic()
        desk.pause()
        try:
            self._wait(desk.all_still)
            paused = time.monotonic()
            directory = self.directory / "checkpoints"
            facts = {
                "step": standing.step,
                "standing": desk.facts(),
                "job": self.job.model_dump(mode="json"),
                "schema": self.schema.to_dict(),
                "valid": standing.valid,
                "tick": standing.tick,
            }
            checkpoint = self._servers().save(directory, facts=facts, buffers=desk.buffers)
            now = time.monotonic()
            desk.cut_done(checkpoint.path, pause=now - paused, seconds=now - began)
        finally:
            desk.go_on()
        also = standing.best_step
        checkpoints.prune(directory, keep=self.job.checkpoint.keep, also=also)
        self.watcher.say(
            f"checkpoint of step {standing.step:,}: trainers stood still for {now - paused:.2f} s "
            f"({paused - began:.2f} s to come to a halt)"
        )

    def _roll_back(self) -> None:
        """Everybody goes on from the last cut, as if nothing since had happened."""
        desk, standing = self.desk, self.standing
        cluster = self.job.cluster
        self.watcher.end()
        desk.offer(None, [])
        self._wait(
            lambda: desk.ready(pservers=cluster.pservers, held=True),
            missing=desk.missing,
            patience=cluster.start_timeout,
            rolling=True,
        )
        self._wait(
            lambda: bool(desk.roster.live("trainer")),
            missing=lambda: ["a trainer"],
            patience=cluster.start_timeout,
            rolling=True,
        )
        found = None if standing.checkpoint is None else checkpoints.read(Path(standing.checkpoint))
        desk.rewind(found)
        where = "the beginning" if found is None else found.path.name
        self.watcher.say(f"rolling back to {where} as generation {standing.generation}: {standing.faults[-1]}")
        self._load(standing.checkpoint)
        desk.loaded()
        if self._journal is not None:
            self._journal.rewind(standing.step)
        if standing.book is not None:
            self._order("round", {"ranks": [peer.rank for peer in desk.roster.live("trainer")]})

    def _validate(self) -> bool:
        """Evaluate; return whether this is the best so far."""
        standing = self.standing
        standing.valid = self._evaluate("valid", self.job.data.valid)
        self._note("valid", standing.epoch - 1, standing.valid)
        auc, best = standing.valid.get("auc"), standing.best_auc
        if auc is not None and (best is None or auc > best + self.job.train.early_stopping.min_delta):
            standing.best_auc, standing.best_step, standing.stale_epochs = auc, standing.step, 0
            return True
        standing.stale_epochs += 1
        return False

    def _test(self) -> None:
        """Figures on the test data, of the best checkpoint if validation chose one."""
        standing = self.standing
        if standing.best_step is not None and standing.best_step != standing.step:
            best = self.directory / "checkpoints" / f"step-{standing.best_step:010d}"
            self._load(str(best))
            self.watcher.say(f"testing the best checkpoint, {best.name}")
        standing.test = self._evaluate("test", self.job.data.test)
        self._note("test", standing.epoch, standing.test)

    def _evaluate(self, which: str, paths: list[str]) -> dict[str, float]:
        desk = self.desk
        found = pieces.cut(self.job.data, paths, **self._cutting())
        self.watcher.begin(f"evaluating {which}")
        desk.scores = Scores()
        desk.enter("evaluating")
        desk.take_book(LeaseBook(len(found), attempts=self.job.cluster.piece_attempts, first=self.standing.next_lease))
        desk.offer(which, found)
        self._wait(lambda: desk.book.complete)
        desk.offer(None, [])
        desk.close_book()
        self.watcher.end()
        figures = desk.scores.figures(list(self.schema.labels))
        self.watcher.say(
            f"{which}: " + "  ".join(f"{k} {v:.5f}" for k, v in figures.items() if k in ("auc", "logloss"))
        )
        return figures

    # What the parts need

    def _wait(
        self,
        happened: Callable[[], bool],
        *,
        missing: Callable[[], list[str]] | None = None,
        patience: float | None = None,
        rolling: bool = False,
    ) -> None:
        """Until something has happened; the dead are buried and the watchers told meanwhile."""
        desk = self.desk
        deadline = None if patience is None else time.monotonic() + patience
        while True:
            with desk.changed:
                if happened():
                    return
                desk.changed.wait(0.2)
            self._look()
            if desk.stopping is not None:
                raise PeerError(desk.stopping)
            desk.look()
            self._bury()
            desk.show(self.watcher, pieces=len(self._train))
            if desk.rollback_wanted and not rolling:
                raise RolledBack
            if deadline is not None and time.monotonic() > deadline:
                named = ", ".join(missing() if missing else []) or "everybody"
                raise PeerError(
                    f"waited {patience:.0f} s for {named}: not there; look at its log, or raise cluster.start_timeout"
                )
            absent = desk.absent(self.job.cluster.start_timeout)
            if absent:
                raise PeerError(
                    f"{absent} has been gone for {self.job.cluster.start_timeout:.0f} s and did not come back"
                )

    def _bury(self) -> None:
        """Give the work of the dead to the living."""
        for peer in self.desk.take_dead():
            if self.sync or self._orders is None:
                continue
            leases = self.desk.leases_of(peer.name)
            progress = self._orders.progress(forget=[], client=peer.client) if leases else {}
            self.desk.bury(peer, {lease: progress.get(lease, (0, 0)) for lease in leases})

    def _metrics(self, make: Labelled) -> Iterator[Metric]:
        with self.desk.changed:
            status = status_of(self.desk)
        return run_metrics(make, status)

    def _order(self, op: str, facts: dict[str, Any] | None = None) -> list[dict[str, Any]]:
        return self._servers().all(op, facts)

    def _load(self, checkpoint: str | None) -> None:
        standing = self.standing
        self._order("load", {"checkpoint": checkpoint, "generation": standing.generation, "warm": standing.warm})

    def _servers(self) -> Orders:
        if self._orders is None:
            raise PeerError("no servers have joined yet")
        return self._orders

    def _note(self, kind: str, epoch: int, figures: dict[str, float]) -> None:
        if self._journal is not None:
            self._journal.line(kind=kind, step=self.standing.step, epoch=epoch, figures=figures)

    def _cutting(self) -> dict[str, int]:
        self.standing.cut_for = self.standing.cut_for or self.job.cluster.trainers
        return {"piece_bytes": self.job.cluster.piece_bytes, "trainers": self.standing.cut_for}

    def _stopped_early(self) -> bool:
        patience = self.job.train.early_stopping.patience
        return patience > 0 and self.standing.stale_epochs >= patience

    def _enough(self) -> bool:
        return 0 < self.job.train.max_steps <= self.standing.step
