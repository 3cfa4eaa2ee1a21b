"""The state of affairs: who is there, what is offered, who stands still, what went wrong. `Coordinator.run` waits on it.

Everything is guarded by `changed`. Methods without an underscore may be called from any thread.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from clickline.config import Job
from clickline.data.leases import LeaseBook
from clickline.data.pieces import Piece
from clickline.data.schema import Schema
from clickline.train.checkpoints import Checkpoint
from clickline.train.cluster.roster import Peer, Roster
from clickline.train.cluster.standing import Standing
from clickline.train.cluster.statuses import status_of
from clickline.train.cluster.tallies import Arrays, Intervals, Scores
from clickline.train.journal import Journal
from clickline.train.watching import Watcher

log = logging.getLogger("clickline.coordinator")
STATUS = "status.json"
_STATUS_EVERY = 1.0


class Affairs:
    def __init__(self, *, job: Job, schema: Schema, directory: Path, standing: Standing, sync: bool) -> None:
        self.job, self.schema, self.directory, self.standing, self.sync = job, schema, directory, standing, sync
        self.changed = threading.Condition(threading.RLock())
        self.roster = Roster(job.cluster)
        self.client = secrets.randbits(62) + 1
        self.book = LeaseBook(0, attempts=1)
        self.scores = Scores()
        self.journal: Journal | None = None
        self.buffers: Arrays = {}
        self.rollback_wanted = False
        self.final = False
        """Training is over: nothing that happens now can change the model."""
        self.moved: Callable[[int, str], None] = lambda server, address: None
        self.address = ""
        """Where the coordinator listens."""
        self.metrics = ""
        """Where it answers Prometheus, if it does."""
        self._intervals = Intervals(every=job.train.log_every, lockstep=sync)
        self._offered: str | None = None
        self._pieces: list[Piece] = []
        self._start = standing.step
        """The step with which lockstep began, in this epoch or generation."""
        self._still: set[int] = set()
        """Trainers that stand still: paused, or waiting for work."""
        self._pausing = False
        self._stop: str | None = None
        self._version = 0
        self._dead: list[Peer] = []
        self._gone: dict[str, float] = {}
        """Servers that died, and when."""
        self._next_cut = self._cut_after(standing.step)
        self._reached: dict[int, int] = {}
        self._status_written = 0.0
        self._opened = False
        self._leaving: set[int] = set()

    # Beginnings and ends

    def open(self) -> None:
        """Let processes join."""
        with self.changed:
            self._opened = True
            self._tell()

    def enter(self, phase: str) -> None:
        with self.changed:
            self.standing.phase = phase
            self._remember()
            self._tell()

    def stop(self, why: str) -> None:
        """Tell everybody to stop."""
        with self.changed:
            self._stop = self._stop or why
            if self.standing.phase != "finished":
                self.standing.phase = "failed"
            self._tell()

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
        there = {(p.role, p.rank) for p in self.roster.peers.values() if p.state != "dead"}
        return [f"{role}.{rank}" for role, rank in wanted if (role, rank) not in there]

    # Work

    def take_book(self, book: LeaseBook) -> None:
        """From here on leases are those of this book."""
        with self.changed:
            self.book = book
            self._start = self.standing.step
            self._reached = {}
            self._remember()

    def close_book(self) -> None:
        """The book is done: what it counted goes into the standing."""
        with self.changed:
            self.standing.repeated_rows += self.book.repeated_rows
            self.standing.set_aside += self.set_aside()
            self.standing.next_lease = self.book.next_lease
            self.book = LeaseBook(0, attempts=1)
            self.standing.book = None
            self._remember()

    def set_aside(self) -> list[dict[str, Any]]:
        """Pieces of the book that nobody reads any more."""
        return [
            {"piece": piece, "path": self._pieces[piece].path if piece < len(self._pieces) else "", "reason": reason}
            for piece, reason in self.book.set_aside.items()
        ]

    def offer(self, what: str | None, pieces: list[Piece]) -> None:
        """Trainers that ask get leases on these pieces, to train or to evaluate."""
        with self.changed:
            self._offered = what
            if pieces:
                self._pieces = pieces
            if what == "train":
                self.standing.phase = "training"
            self._tell()

    # Cuts

    def cut_wanted(self) -> bool:
        return self._pausing if self.sync else self.standing.step >= self._next_cut

    def pause(self) -> None:
        with self.changed:
            self._pausing = True
            self._tell()

    def all_still(self) -> bool:
        """Whether no trainer does anything."""
        return {p.client for p in self.roster.live("trainer")} <= self._still

    def facts(self) -> dict[str, Any]:
        """The standing as a checkpoint keeps it."""
        with self.changed:
            self._keep_book()
            return dict(self.standing.__dict__)

    def cut_done(self, path: Path, *, pause: float, seconds: float) -> None:
        with self.changed:
            standing = self.standing
            standing.checkpoint, standing.pause_seconds, standing.cut_seconds = str(path), pause, seconds
            standing.cuts += 1
            self._next_cut = self._cut_after(standing.step)
            self._remember()

    def go_on(self) -> None:
        with self.changed:
            self._pausing = False
            self._tell()

    def rewind(self, checkpoint: Checkpoint | None) -> None:
        """Stand where the checkpoint stood, as a new generation."""
        with self.changed:
            old = self.standing
            new = Standing() if checkpoint is None else Standing.from_dict(checkpoint.manifest["standing"])
            new.generation, new.faults, new.checkpoint = old.generation + 1, old.faults, old.checkpoint
            new.next_lease = max(self.book.next_lease, old.next_lease)
            new.cuts, new.lost_pushes = old.cuts, old.lost_pushes
            if new.book is not None:
                new.book = released(new.book, first=new.next_lease, static=self._names()).to_dict()
            self.standing.__dict__.update(new.__dict__)
            self.book = LeaseBook(0, attempts=1)
            self._intervals = Intervals(every=self.job.train.log_every, lockstep=self.sync)
            self._next_cut = self._cut_after(new.step)
            self._dead, self._pausing = [], False
            self._remember()
            self._tell()

    def loaded(self) -> None:
        """All servers have loaded the new generation."""
        with self.changed:
            for peer in self.roster.live("pserver"):
                peer.ready = True
            self.rollback_wanted = False
            self._tell()

    # Deaths

    def died(self, role: str, rank: int, why: str) -> None:
        """Whoever started a process says that it is gone."""
        with self.changed:
            peer = self.roster.named(role, rank)
            if peer is not None and peer.state != "dead":
                self._died(peer, why)

    def look(self) -> None:
        """Notice the silent; write the status now and then."""
        with self.changed:
            slow, dead = self.roster.watch()
            for peer in slow:
                log.warning(
                    "%s has been silent for %.0f s; slow is not dead, waiting", peer.name, self.job.cluster.warn_after
                )
            for peer in dead:
                self._died(peer, f"was silent for {self.job.cluster.evict_after:.0f} s")
        if time.monotonic() - self._status_written > _STATUS_EVERY:
            self.write_status()

    def absent(self, patience: float) -> str | None:
        """A server that has been gone for too long."""
        now = time.monotonic()
        return next((name for name, since in self._gone.items() if now - since > patience), None)

    def take_dead(self) -> list[Peer]:
        with self.changed:
            dead, self._dead = self._dead, []
            return dead

    def leases_of(self, holder: str) -> list[int]:
        with self.changed:
            return [held.lease.number for held in self.book.active if held.holder == holder]

    def bury(self, peer: Peer, progress: dict[int, tuple[int, int]]) -> None:
        """A dead trainer's pieces go back, to be resumed where its pushes had come everywhere."""
        with self.changed:
            for lease, (_, most) in progress.items():
                self.book.progress(lease, most)
            done = {lease: least for lease, (least, _) in progress.items()}
            for lost in self.book.lose(peer.name, done=done):
                text = f"piece {lost.piece} goes on at row {lost.rows:,} with another trainer, {lost.repeated:,} rows again"
                if lost.set_aside:
                    text = (
                        f"piece {lost.piece} has taken down {self.job.cluster.piece_attempts} trainers and is set aside"
                    )
                self._fault(f"{peer.name} is gone: {text}")
            self._remember()
            self._tell()

    # Watching

    def write_lines(self, *, end: bool = False) -> None:
        """Metrics, when enough batches have been reported; at the end of an epoch, of whatever is left."""
        with self.changed:
            live = [self._reached.get(p.client, -1) for p in self.roster.live("trainer")]
            reached = (1 << 62) if end else min(live, default=-1) if self.sync else self.standing.step
            while self.journal is not None:
                upto = self._intervals.due(reached=reached, trainers=len(live))
                if upto is None:
                    break
                figures = self._intervals.line(upto)
                step = upto if self.sync else self.standing.step
                self.journal.line(kind="train", step=step, epoch=self.standing.epoch, figures=figures)
                shown = ("loss", "auc", "logloss", "rows_per_second")
                log.info("step %d  %s", step, "  ".join(f"{k} {figures[k]:.5g}" for k in shown if k in figures))

    def show(self, watcher: Watcher, *, pieces: int) -> None:
        with self.changed:
            book, loss = self.book, self._intervals.loss
            share = None if self._offered is None or not self._pieces else book.done / len(self._pieces)
            facts = {"rows": f"{self.standing.rows:,}", "rows/s": f"{self._intervals.rate:,.0f}"}
            if loss is not None:
                facts["loss"] = f"{loss:.4f}"
            facts["trainers"] = str(len(self.roster.live("trainer")))
        watcher.advance(share=share, facts=facts)

    def write_status(self) -> None:
        """For `clickline status`."""
        self._status_written = time.monotonic()
        with self.changed:
            status = status_of(self)
        aside = self.directory / f".{STATUS}.{os.getpid()}"
        with suppress(OSError):  # a full disk must not end a run for the sake of its status
            aside.write_text(json.dumps(status, indent=1), encoding="utf-8")
            aside.replace(self.directory / STATUS)

    @property
    def pace(self) -> tuple[float, float | None]:
        """Rows per second, and the loss of the last batch."""
        return self._intervals.rate, self._intervals.loss

    @property
    def stopping(self) -> str | None:
        """Why everybody is told to stop, if so."""
        return self._stop

    @property
    def evicts(self) -> bool:
        """Whether any slot has an eviction rule, or counts decay."""
        tables = self.job.tables
        rules = [tables.eviction, *(slot.eviction for slot in self.schema.slots if slot.eviction is not None)]
        return tables.count_decay < 1 or any(rule.unseen_for > 0 or rule.min_score > 0 for rule in rules)

    # What the above need

    def _died(self, peer: Peer, why: str) -> None:
        peer.state, peer.ready = "dead", False
        self._still.discard(peer.client)
        if self._stop is not None or peer.client in self._leaving:
            return
        self._fault(f"{peer.name} {why}")
        if peer.role == "trainer":
            self._dead.append(peer)
            self._reached.pop(peer.client, None)
        else:
            self._gone[peer.name] = time.monotonic()
        if self.sync and not self.final and self.standing.phase != "gathering":
            self.rollback_wanted = True
        self._tell()

    def _fault(self, text: str) -> None:
        self.standing.faults.append(text)
        log.warning(text)

    def lost_pushes(self) -> int:
        return sum(
            int(p.stats.get("counters", {}).get("lost", 0)) for p in self.roster.peers.values() if p.role == "pserver"
        )

    def _names(self) -> list[str] | None:
        return [peer.name for peer in self.roster.live("trainer")] if self.sync else None

    def _cut_after(self, step: int) -> int:
        every, last = self.job.checkpoint.every_steps, self.job.train.max_steps
        after = (step // every + 1) * every if every else 1 << 62
        return min(after, last) if step < last else after

    def _keep_book(self) -> None:
        self.standing.book = (
            self.book.to_dict()
            if self._offered in ("train", None) and self.standing.phase == "training" and not self._empty()
            else None
        )
        self.standing.next_lease = max(self.standing.next_lease, self.book.next_lease)

    def _empty(self) -> bool:
        return self.book.done + self.book.remaining + len(self.book.active) + len(self.book.set_aside) == 0

    def _remember(self) -> None:
        self._keep_book()
        self.standing.save(self.directory)

    def _tell(self) -> None:
        self._version += 1
        self.changed.notify_all()


def released(book: dict[str, Any], *, first: int, static: list[str] | None) -> LeaseBook:
    """A saved book in which nobody holds anything: pieces that were held go on where the cut found them."""
    found = LeaseBook.from_dict(book, first=first)
    for holder in {held.holder for held in found.active}:
        found.lose(holder, done={}, blame=False)
    found.assign(static)
    return found
