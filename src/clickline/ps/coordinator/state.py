"""The state of affairs: who is there, what is offered, who stands still. `Coordinator.run` waits on it.

Everything is guarded by the lock of `changed` and `announced`. Methods without an underscore may be called from any
thread.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from clickline.config import Job
from clickline.data.leasing.leases import LeaseTable
from clickline.data.leasing.pieces import Piece
from clickline.data.schema import Schema
from clickline.errors import ReplacedError
from clickline.ps.coordinator.incarnations import Incarnations
from clickline.ps.coordinator.members import Roster
from clickline.ps.coordinator.metric_windows import Arrays, Intervals, Scores
from clickline.ps.coordinator.record import Standing, StandingFile
from clickline.ps.coordinator.resumed_record import standing_in
from clickline.ps.server_addresses import ServerAddresses
from clickline.train.checkpoints.checkpoint_files import Checkpoint
from clickline.train.early_stopping import last_step
from clickline.train.monitoring.epoch_progress import EpochProgress
from clickline.train.monitoring.journal import Journal
from clickline.train.sparse_tables import sweeps

log = logging.getLogger("clickline.coordinator")
_NOT_REWOUND = (
    *("faults", "cuts", "pause_seconds", "lost_pushes", "cut_for", "cut_bytes", "retries"),
    "incarnations",
)
"""What has happened has happened, also where the model goes back to a checkpoint."""


class Affairs:
    """What everybody's questions are answered from. Deaths are another file."""

    pause_at: int | None = None
    """The step at which trainers in lockstep should pause, beside those that follow from the job."""

    def __init__(
        self, *, job: Job, schema: Schema, directory: Path, standing: Standing, sync: bool, file: StandingFile
    ) -> None:
        self.job, self.schema, self.directory, self.standing, self.sync = job, schema, directory, standing, sync
        self.file = file
        lock = threading.RLock()
        self.changed, self.announced = threading.Condition(lock), threading.Condition(lock)
        """Something that everybody should hear. Signs of life wait for this alone: if each report of many trainers woke
        the signs of life of all of them, the coordinator would do nothing else."""
        self.roster = Roster(job.cluster)
        self.incarnations = Incarnations(
            cluster=job.cluster, roster=self.roster, records=lambda: self.standing.incarnations
        )
        self.writer_epoch = file.epoch
        """Of this coordinator; in every answer, so that nobody believes one that was replaced."""
        self._overtaken: str | None = None
        self.client = secrets.randbits(62) + 1
        self.book = LeaseTable(0, attempts=1)
        self.scores = Scores()
        self.journal: Journal | None = None
        self.buffers: Arrays = {}
        self.intervals = self._new_intervals()
        self._epoch_progress = EpochProgress()
        self.begun = False
        """All have gathered: from here on a death is more than a slow start."""
        self.rollback_wanted = False
        self.final = False
        """Training is over: nothing that happens now can change the model."""
        self.serves: str | None = standing.checkpoint
        """The checkpoint that a server which comes back should load."""
        self.moved: Callable[[int, str], None] = lambda server, address: None
        self.servers = ServerAddresses()
        self.offered: str | None = None
        self.pieces: list[Piece] = []
        self._training = False
        """Whether the book is one of training, not of an evaluation."""
        self.address = ""
        """Where the coordinator listens."""
        self.metrics = ""
        """Where it answers Prometheus, if it does."""
        self._start = standing.step
        """The step with which lockstep began, in this epoch or generation."""
        self._still: set[int] = set()
        """Trainers that stand still: paused, or waiting for work."""
        self._pausing = False
        self._stop: str | None = None
        self._version = 0
        self._dead: dict[str, bool] = {}
        """Holders whose leases have not gone to others yet, and whether their pieces are to blame."""
        self._gone: dict[str, float] = {}
        """Servers that died, and when."""
        self._next_cut = self._cut_after(standing.step)
        self._reached: dict[int, int] = {}
        self._opened = False
        # When a coordinator takes over: servers with nothing loaded when they joined it, and whether one was of another
        # generation.
        self.strangers, self.stale = set[str](), False
        self._leaving: set[int] = set()

    # Beginnings and ends

    def open(self, *, taking_over: bool = False) -> None:
        """Let processes join."""
        with self.changed:
            self.incarnations.open(taking_over=taking_over)
            self._opened = True
            self._tell()

    def enter(self, phase: str) -> None:
        with self.changed:
            self.standing.phase = phase
            self._remember()
            self._tell()

    def conclude(self) -> bool:
        """Training is over, unless something has happened that has to be mended first."""
        with self.changed:
            self.final = not self.rollback_wanted
            return self.final

    def overtake(self, why: str) -> None:
        """Another coordinator has this one's place: nobody is told anything any more, and nothing is written."""
        with self.changed:
            self._overtaken = self._overtaken or why
            self._tell()

    @property
    def overtaken(self) -> str | None:
        """Why this coordinator is none any more, if so."""
        return self._overtaken

    def stop(self, why: str, *, phase: str = "failed") -> None:
        """Tell everybody to stop; a run that has not finished ends in this phase."""
        with self.changed:
            if self._overtaken is not None:
                return
            if self._stop is None and self.standing.phase != "finished":
                self.standing.phase = phase
            self._stop = self._stop or why
            self._tell()

    @property
    def stopping(self) -> str | None:
        """Why everybody is told to stop, if so."""
        return self._stop

    def await_farewells(self, patience: float) -> None:
        """Give trainers and servers a moment to hear of it, and to take their leave."""
        with self.changed:
            self.changed.wait_for(lambda: {p.state for p in self.roster.peers.values()} <= {"done", "dead"}, patience)

    def ready(self, *, pservers: int, trainers: int = 0, held: bool = False) -> bool:
        """Whether so many servers have loaded, or at least joined, and so many trainers are there."""
        servers = [p for p in self.roster.live("pserver") if p.ready or held]
        return len(servers) >= pservers and len(self.roster.live("trainer")) >= trainers

    def missing(self) -> list[str]:
        """Who is awaited and not there."""
        cluster = self.job.cluster
        wanted = [("pserver", rank) for rank in range(cluster.pservers)]
        wanted += [("trainer", rank) for rank in range(cluster.trainers)]
        there = {(p.role, p.rank) for p in self.roster.live()}
        return [f"{role}.{rank}" for role, rank in wanted if (role, rank) not in there]

    # Work

    def take_book(self, book: LeaseTable, *, training: bool) -> None:
        """From here on leases are those of this book."""
        with self.changed:
            self.book, self._training = book, training
            self._start = self.standing.step
            self._reached = {}
            self._remember()

    @property
    def has_book(self) -> bool:
        """Whether there is a book of training that leases are given from."""
        return self._training and not self._empty()

    def close_book(self) -> None:
        """The book is done: what it counted goes into the standing."""
        with self.changed:
            self.standing.repeated_rows += self.book.repeated_rows
            self.standing.set_aside += self.set_aside()
            self.standing.next_lease = self.book.next_lease
            self._count_rows()
            self.standing.rows_before = self.standing.rows
            self.book = LeaseTable(0, attempts=1)
            self.standing.book = None
            self._remember()

    def set_aside(self) -> list[dict[str, Any]]:
        """Pieces of the book that nobody reads any more."""
        return [
            {"piece": piece, "path": self.pieces[piece].path if piece < len(self.pieces) else "", "reason": reason}
            for piece, reason in self.book.set_aside.items()
        ]

    def offer(self, what: str | None, pieces: list[Piece]) -> None:
        """Trainers that ask get leases on these pieces, to train or to evaluate."""
        with self.changed:
            self.offered = what
            if pieces:
                self.pieces = pieces
            if what == "train":
                self.standing.phase = "training"
            self._tell()

    def cut_wanted(self) -> bool:
        return self._pausing if self.sync else self.standing.step >= self._next_cut

    def cut_soon(self) -> None:
        """Have trainers in lockstep pause at one step, far enough ahead for all of them to hear of it."""
        with self.changed:
            batch = self.job.train.batch_size * max(len(self.roster.live("trainer")), 1)
            ahead = 2 + int(self.intervals.rate / batch)
            self.pause_at = self._next_cut = max(self.standing.step, *self._reached.values(), 0) + ahead
            self._tell()

    def pause(self) -> None:
        with self.changed:
            self._pausing = True
            self._tell()

    def all_still(self) -> bool:
        """Whether no trainer does anything, and what the dead have done is known."""
        return not self._dead and {p.client for p in self.roster.live("trainer")} <= self._still

    def facts(self) -> dict[str, Any]:
        """The standing as a checkpoint keeps it. Everybody stands still, so the book knows every row."""
        with self.changed:
            self._count_rows()
            self._keep_book()
            return {**self.standing.__dict__, "incarnations": {}}  # who goes on from a checkpoint are other processes

    def cut_done(self, path: Path, *, pause: float, seconds: float) -> None:
        with self.changed:
            standing = self.standing
            standing.checkpoint, standing.pause_seconds, standing.cut_seconds = str(path), pause, seconds
            self.serves = standing.checkpoint
            standing.cuts += 1
            self._next_cut = self._cut_after(standing.step)
            self._remember()

    def go_on(self) -> None:
        with self.changed:
            self._pausing = False
            self._tell()

    def rewind(self, checkpoint: Checkpoint | None) -> None:
        """Stand where the checkpoint stood, as a new generation. A death from here on is a reason to do it again."""
        with self.changed:
            old = self.standing
            new = Standing(step=old.first_step, tick=old.first_step)
            if checkpoint is not None:
                new = standing_in(checkpoint, job=self.job)
            new.generation, new.checkpoint = old.generation + 1, old.checkpoint
            new.warm, new.first_step = old.warm, old.first_step
            new.next_lease = max(self.book.next_lease, old.next_lease)
            for name in _NOT_REWOUND:
                setattr(new, name, getattr(old, name))
            if new.book is not None:
                new.book = released(new.book, first=new.next_lease, static=self._names()).to_dict()
            self.standing.__dict__.update(new.__dict__)
            self.book = LeaseTable(0, attempts=1)
            self.intervals = self._new_intervals()
            self._next_cut = self._cut_after(new.step)
            self._dead, self._pausing, self.rollback_wanted = {}, False, False
            self.serves = new.checkpoint
            self._save()
            self._tell()

    def loaded(self) -> None:
        """All servers have loaded the new generation."""
        with self.changed:
            for peer in self.roster.live("pserver"):
                peer.ready = True
            self._tell()

    @property
    def evicts(self) -> bool:
        """Whether any slot has an eviction rule, or counts decay."""
        return sweeps(tables=self.job.tables, slots=self.schema.slots)

    @property
    def last_step(self) -> int:
        """The step with which the run ends; 0 if the job does not limit steps."""
        return last_step(self.job.train, first_step=self.standing.first_step)

    # What the above need

    def _new_intervals(self) -> Intervals:
        job = self.job
        every, labels = job.train.log_every, len(self.schema.labels)
        return Intervals(every=every, lockstep=self.sync, metrics=job.metrics, labels=labels)

    def _names(self) -> list[str] | None:
        return [peer.name for peer in self.roster.live("trainer")] if self.sync else None

    def _cut_after(self, step: int) -> int:
        every, last = self.job.checkpoint.every_steps, self.last_step
        after = (step // every + 1) * every if every else 1 << 62
        return min(after, last) if step < last else after

    def _count_rows(self) -> None:
        """Rows as the book knows them: a trainer that died may not have reported all that it had pushed."""
        if self.has_book:
            self.standing.rows = self.standing.rows_before + self.book.rows_done + self.book.repeated_rows

    def _keep_book(self) -> None:
        if self.has_book:  # else it is closed, or one that everybody went back to has not been taken up yet
            self.standing.book = self.book.to_dict()
        self.standing.next_lease = max(self.standing.next_lease, self.book.next_lease)

    def _empty(self) -> bool:
        return self.book.done + self.book.remaining + len(self.book.active) + len(self.book.set_aside) == 0

    def _remember(self) -> None:
        self._keep_book()
        self._save()

    def _save(self) -> None:
        if self._overtaken is not None:
            return
        try:
            self.file.save(self.standing)
        except ReplacedError as error:
            self.overtake(str(error))

    def _tell(self) -> None:
        self._version += 1
        self.changed.notify_all()
        self.announced.notify_all()


def released(book: dict[str, Any], *, first: int, static: list[str] | None) -> LeaseTable:
    """A saved book in which nobody holds anything: pieces that were held go on where the cut found them."""
    found = LeaseTable.from_dict(book, first=first)
    for holder in {held.holder for held in found.active}:
        found.lose(holder, done={}, blame=False)
    found.assign(static)
    return found
