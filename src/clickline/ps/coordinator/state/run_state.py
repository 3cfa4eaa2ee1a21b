"""The state of a run: its data, the lock that guards it, and the conditions on which threads wait for changes.

Replies to members are made on the wire's threads, the story of the run (coordinator.py) goes on in another one; both
change this state under the lock of `changed`. Its parts have no lock of their own. Methods without a remark take the
lock themselves, so they may be called from any thread.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

from clickline.config import Job
from clickline.data.leasing.leases import LeaseTable
from clickline.data.leasing.pieces import Piece
from clickline.data.schema import Schema
from clickline.errors import ReplacedError
from clickline.ps.coordinator.state.failures import Failures
from clickline.ps.coordinator.state.incarnations import Incarnations
from clickline.ps.coordinator.state.leased_work import LeasedWork, released
from clickline.ps.coordinator.state.lifecycle import Lifecycle
from clickline.ps.coordinator.state.members import MemberState, RunMembers
from clickline.ps.coordinator.state.metric_windows import MetricWindows
from clickline.ps.coordinator.state.placed_data import PlacedData
from clickline.ps.coordinator.state.record import RecordFile, RunRecord, record_in
from clickline.ps.coordinator.state.snapshot_schedule import SnapshotSchedule
from clickline.ps.initial_model import InitialModel
from clickline.ps.protocol.member_messages import JsonObject
from clickline.ps.protocol.work_messages import Action
from clickline.ps.server_addresses import ServerAddresses
from clickline.train.checkpoints.checkpoint_files import Checkpoint

_KEPT_ON_ROLLBACK = (
    *("faults", "cuts", "pause_seconds", "lost_pushes", "cut_for", "cut_bytes", "retries"),
    *("incarnations", "launch"),
)
"""Fields of the record that count what has happened, which stays so when the model goes back to a checkpoint."""


class RunState:
    """Everything that replies to members are made from, and that the coordinator waits on."""

    def __init__(
        self, *, job: Job, schema: Schema, directory: Path, record: RunRecord, lockstep: bool, record_file: RecordFile
    ) -> None:
        self.job, self.schema, self.directory, self.record, self.lockstep = job, schema, directory, record, lockstep
        self.record_file = record_file
        self.model: InitialModel | None = None
        """As a trainer has described it to this coordinator."""
        self.asked_for_model: set[int] = set()
        """Clients that wanted to join as trainers, and were asked to describe it first."""
        lock = threading.RLock()
        self.changed, self.announced = threading.Condition(lock), threading.Condition(lock)
        """`changed`: anything. `announced`: something for everybody, on which heartbeats wait: if every report of a
        trainer woke the heartbeats of all of them, the coordinator would do nothing else."""
        self.lifecycle = Lifecycle(served_checkpoint=record.checkpoint)
        self.members = RunMembers(job.cluster)
        self.incarnations = Incarnations(
            cluster=job.cluster, members=self.members, records=lambda: self.record.incarnations
        )
        self.leases = LeasedWork(record)
        self.data = PlacedData(job=job, record=record, members=self.members, lockstep=lockstep)
        self.snapshots = SnapshotSchedule(job=job, record=record, lockstep=lockstep)
        self.failures = Failures(record)
        self.windows = MetricWindows(job=job, labels=len(schema.labels), lockstep=lockstep)
        self.servers = ServerAddresses()

    # The beginning and the end of a run

    def open(self, *, taking_over: bool = False) -> None:
        """Let processes join."""
        with self.changed:
            self.incarnations.open(taking_over=taking_over)
            self.lifecycle.opened = True
            self.announce()

    def enter(self, phase: str) -> None:
        with self.changed:
            self.record.phase = phase
            self.remember()
            self.announce()

    def conclude(self) -> bool:
        """End training, unless something has happened that must be undone by a rollback first."""
        with self.changed:
            # Decided under the lock: a death in lockstep either comes before it and causes a rollback, or finds `final`
            # set and causes none.
            self.lifecycle.final = not self.lifecycle.rollback_wanted
            return self.lifecycle.final

    def supersede(self, why: str) -> None:
        """Another coordinator has this one's place: nobody is told anything any more, and nothing is written."""
        with self.changed:
            self.lifecycle.superseded = self.lifecycle.superseded or why
            self.announce()

    def stop(self, why: str, *, phase: str = "failed") -> None:
        """Tell everybody to stop; a run that has not finished ends in this phase."""
        with self.changed:
            if self.lifecycle.superseded is not None:
                return
            if self.lifecycle.stop_reason is None and self.record.phase != "finished":
                self.record.phase = phase
            self.lifecycle.stop_reason = self.lifecycle.stop_reason or why
            self.announce()

    def await_departures(self, patience: float) -> None:
        """Give trainers and servers a moment to hear that the run is over, and to leave."""
        gone = {MemberState.DONE, MemberState.DEAD}
        with self.changed:
            self.changed.wait_for(lambda: {m.state for m in self.members.by_client.values()} <= gone, patience)

    def ready(self, *, pservers: int, trainers: int = 0, held: bool = False) -> bool:
        """Whether so many servers have loaded, or at least joined, and so many trainers are there."""
        servers = [member for member in self.members.live("pserver") if member.ready or held]
        ready = [member for member in self.members.live("trainer") if self.data.reported(member)]
        return len(servers) >= pservers and len(ready) >= trainers

    def missing(self) -> list[str]:
        """Names of processes that the job wants and that are not there."""
        cluster = self.job.cluster
        wanted = [("pserver", rank) for rank in range(cluster.pservers)]
        wanted += [("trainer", rank) for rank in range(cluster.trainers)]
        here = {(member.role, member.rank) for member in self.members.live()}
        return [f"{role}.{rank}" for role, rank in wanted if (role, rank) not in here]

    # Work

    def use_leases(self, table: LeaseTable, *, training: bool) -> None:
        """Give leases of this table from here on."""
        with self.changed:
            self.leases.use(table, training=training)
            self.windows.reached = {}
            self.remember()

    def take_up_leases(self, *, gathered: bool = False) -> None:
        """Use the lease table of an epoch that was begun before this process, or before a rollback.

        `gathered`: the trainers are there that it is for. Otherwise they may hold leases of it.
        """
        with self.changed:
            self.data.take_up()
            table = LeaseTable.from_dict(self.record.book or {}, first=self.record.next_lease)
            # In lockstep a rollback has named the holders of shared data.
            if gathered and (self.job.data.placement != "shared" or table.rows_by_node()):
                table.assign(self.data.ranges(self.members.live("trainer")))
            self.use_leases(table, training=True)

    def finish_leases(self, *, ends_epoch: bool = False) -> None:
        """The lease table is done: what it counted goes into the record, as does the end of an epoch.

        Both are one write. A coordinator that took over a record with neither a lease table nor the next epoch would
        train the epoch once more.
        """
        with self.changed:
            if self.leases.trains:
                for text in self.data.close_epoch(self.leases.table):
                    self.failures.note(text)
            self.leases.finish()
            if ends_epoch:
                self.record.epoch += 1
                self.record.validation_due = bool(self.job.data.valid)
            self.remember()

    def offer(self, action: Action | None, pieces: Sequence[Piece] = ()) -> None:
        """Give trainers that ask for work leases on these pieces, to train or to evaluate; None: give them nothing."""
        with self.changed:
            self.leases.offered = action
            if pieces:
                self.leases.pieces = pieces
            if action == Action.TRAIN:
                self.record.phase = "training"
            self.announce()

    # Snapshots

    def pause(self) -> None:
        """Have all trainers stand still."""
        with self.changed:
            self.snapshots.pausing = True
            self.announce()

    def resume(self) -> None:
        """Let the trainers go on."""
        with self.changed:
            self.snapshots.pausing = False
            self.announce()

    def pause_soon(self) -> None:
        """Have trainers in lockstep pause at one step that is not far."""
        with self.changed:
            reached, trainers = list(self.windows.reached.values()), len(self.members.live("trainer"))
            self.snapshots.pause_soon(reached=reached, trainers=trainers, rate=self.windows.window.rate)
            self.announce()

    def all_idle(self) -> bool:
        """Whether no trainer does anything, and how far those that are gone had come is known."""
        living = {member.client for member in self.members.live("trainer")}
        return not self.failures.orphaned and living <= self.snapshots.idle

    def record_for_checkpoint(self) -> JsonObject:
        """The record as a checkpoint keeps it. Everybody stands still, so the lease table knows every row."""
        with self.changed:
            self.leases.count_rows()
            self.leases.keep()
            # A run that resumes from a checkpoint has other processes.
            return {**self.record.to_dict(), "incarnations": {}}

    def snapshot_taken(self, path: Path, *, pause: float, seconds: float) -> None:
        """Note a snapshot: trainers stood still for `pause` seconds, it took `seconds` in all."""
        with self.changed:
            record = self.record
            record.checkpoint, record.pause_seconds, record.cut_seconds = str(path), pause, seconds
            self.lifecycle.served_checkpoint = record.checkpoint
            record.cuts += 1
            self.snapshots.plan_next()
            self.remember()

    def rewind(self, checkpoint: Checkpoint | None) -> None:
        """Go back to a checkpoint, or to the beginning, as a new generation.

        Only the state goes back; whoever calls this has the servers load. A death from here on is a reason to go back
        once more.
        """
        with self.changed:
            # Everybody holds a reference to the record, so it is changed in place at the end, all fields at once.
            old = self.record
            new = RunRecord(step=old.first_step, tick=old.first_step)
            if checkpoint is not None:
                new = record_in(checkpoint, job=self.job)
            new.generation, new.checkpoint = old.generation + 1, old.checkpoint
            new.warm, new.first_step = old.warm, old.first_step
            # Lease numbers tell old messages from new ones, so they never go back.
            new.next_lease = max(self.leases.table.next_lease, old.next_lease)
            for name in _KEPT_ON_ROLLBACK:
                setattr(new, name, getattr(old, name))
            if new.book is None:
                new.cut_nodes = old.cut_nodes  # else those with which the epoch was begun
            else:
                book = released(new.book, first=new.next_lease)
                if self.job.data.placement == "shared":
                    book.assign(self.data.ranges(self.members.live("trainer")))
                new.book = book.to_dict()
            self.record.replace_by(new)
            self.leases.clear()
            self.windows.rewind()
            self.snapshots.plan_next()
            self.snapshots.pausing = False
            self.failures.orphaned = {}
            self.lifecycle.rollback_wanted = False
            self.lifecycle.served_checkpoint = new.checkpoint
            # Not `remember`: the lease table that everybody goes back to is in the record, and not in use yet.
            self.save()
            self.announce()

    def servers_loaded(self) -> None:
        """All servers have loaded the new generation."""
        with self.changed:
            for member in self.members.live("pserver"):
                member.ready = True
            self.announce()

    def losses(self) -> tuple[int, int]:
        """Pushes that a server had applied before it died and are not in what it loaded, and requests sent again."""
        members = self.members.by_client.values()
        lost = self.record.lost_pushes + sum(member.lost_pushes for member in members)
        retries = self.record.retries + sum(member.retries for member in members)
        return 0 if self.lockstep else lost, retries  # in lockstep all go back, so nothing is lost

    # For those who hold the lock

    def remember(self) -> None:
        """Write the record, with the lease table as it is now."""
        self.leases.keep()
        self.save()

    def save(self) -> None:
        """Write the record, unless another coordinator has the run."""
        if self.lifecycle.superseded is not None:
            return
        try:
            self.record_file.save(self.record)
        except ReplacedError as error:
            self.supersede(str(error))

    def announce(self) -> None:
        """Wake all who wait, heartbeats included."""
        self.lifecycle.version += 1
        self.changed.notify_all()
        self.announced.notify_all()
