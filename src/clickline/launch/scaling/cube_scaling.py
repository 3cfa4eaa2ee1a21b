"""Brings the cube of a suite to another number of shards or replicas, while it is read from.

    another number of shards     start a new layout → it gets the version in service → readers move → stop the old one
    more replicas                start them → they get the version in service
    fewer replicas               readers leave them → stop them

It is a part of the suite's own loop: `step` does what can be done now and never waits, since the same thread looks
after all processes. What transfer and servers say is asked for in a thread of its own.
"""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from clickline.cube.server.cube_commands import CubeCommands
from clickline.errors import PeerError
from clickline.launch.delivery_status import DeliveryStatus, LayoutProgress
from clickline.launch.local_cube import LocalCube
from clickline.launch.scaling.scale_file import DesiredSize, ScaleFile, ScalePhase, ScaleRecord

_ASK_EVERY = 0.2
_QUIET_LOOKS = 5
"""So many looks in a row find no reader before a server is stopped: one that only connects anew is not missed."""


@dataclass
class _Work:
    """A desired size, and how far the cube is on the way to it."""

    desired: DesiredSize
    phase: ScalePhase
    started: list[int] = field(default_factory=list)
    """Ranks of members that were started for it."""
    left: list[int] = field(default_factory=list)
    """Ranks of members that are not needed afterwards."""
    epoch: int = 0
    """That of the layout that is read from afterwards."""
    quiet: int = 0
    """Looks in a row without a reader of what is left."""


@dataclass(frozen=True)
class _Look:
    """What transfer and the servers that are to be stopped said."""

    status: DeliveryStatus
    readers: int


class CubeScaling:
    """Reaches desired sizes one after the other."""

    def __init__(self, cube: LocalCube, file: ScaleFile) -> None:
        self._cube, self._members, self._file = cube, cube.members, file
        file.clear()
        self._shape = (cube.shards, cube.replicas)
        self._work: _Work | None = None
        self._done = ""
        self._asking: Future[_Look] | None = None
        self._asked = 0.0
        self._look = _Look(DeliveryStatus(), 0)
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="scale")

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def record(self) -> ScaleRecord:
        """What suite.json says about it."""
        work = self._work
        progress = self._progress(work.epoch) if work is not None else None
        return {
            "id": work.desired.id if work is not None else self._done,
            "phase": (work.phase if work is not None else ScalePhase.DONE).value,
            "shards": self._shape[0],
            "replicas": self._shape[1],
            "loaded": progress.loaded if progress is not None else 0,
            "servers": len(self._members.ranks_of(work.epoch)) if work is not None else 0,
            "readers": self._look.readers if work is not None else 0,
        }

    def step(self) -> None:
        """Do what can be done now."""
        if self._work is None:
            desired = self._file.read()
            if desired is None or desired.id == self._done:
                return
            self._begin(desired)
        elif self._work.phase is ScalePhase.STARTING:
            self._await_start(self._work)
        elif (look := self._fresh_look(self._work)) is not None:
            self._look = look
            if self._work.phase is ScalePhase.DELIVERING:
                self._await_delivery(self._work)
            elif self._work.phase is ScalePhase.MOVING:
                self._await_readers(self._work, look)
            else:
                self._await_retirement(self._work, look)

    def _begin(self, desired: DesiredSize) -> None:
        members, epoch, (shards, replicas) = self._members, self._members.epoch, self._shape
        # Nothing is to be done: also a desired size that is there already has to be told as reached.
        if (desired.shards, desired.replicas) == self._shape:
            self._done = desired.id
            return
        work = self._work = _Work(desired, ScalePhase.STARTING, epoch=epoch)
        if desired.shards != shards:
            work.left, work.epoch = members.ranks_of(epoch), epoch + 1
            work.started = members.start(epoch=epoch + 1, shards=desired.shards, replicas=range(desired.replicas))
        elif desired.replicas > replicas:
            work.started = members.start(epoch=epoch, shards=shards, replicas=range(replicas, desired.replicas))
        else:
            work.left = [rank for rank in members.ranks_of(epoch) if members.places[rank].replica >= desired.replicas]

    def _await_start(self, work: _Work) -> None:
        members = self._members
        if not members.are_ready(work.started):
            return
        # A new layout comes beside the old one; replicas come into the layout, or go from it, as it is.
        if work.epoch != members.epoch:
            members.publish(members.epoch, work.epoch)
        else:
            members.publish(work.epoch, without=work.left)
        work.phase = ScalePhase.DELIVERING

    def _await_delivery(self, work: _Work) -> None:
        # All replicas, and not one of each shard: the old servers that would answer in their place are stopped next.
        progress = self._progress(work.epoch)
        # All servers, where transfer would be content with one of each shard: they are started again soon if they died,
        # and a layout that begins without replicas would be worse than the one that is left.
        needed = len([rank for rank in self._members.ranks_of(work.epoch) if rank not in work.left])
        if progress is not None and progress.joined and progress.servers == needed == progress.switched:
            work.phase = ScalePhase.MOVING if work.left else ScalePhase.RETIRING

    def _await_readers(self, work: _Work, look: _Look) -> None:
        work.quiet = work.quiet + 1 if look.readers == 0 else 0
        if work.quiet >= _QUIET_LOOKS:
            # First transfer is told, which would else complain about servers that are gone.
            self._members.publish(work.epoch, without=work.left)
            work.phase = ScalePhase.RETIRING

    def _await_retirement(self, work: _Work, look: _Look) -> None:
        # Until transfer has let go of them it would send commands to them, and report them as dead.
        # Transfer must have read the list without them, or it would take a server that is stopped for one that failed.
        if work.left and [each.epoch for each in look.status.layouts] != [work.epoch]:
            return
        self._members.stop(work.left)
        self._shape, self._done, self._work = (work.desired.shards, work.desired.replicas), work.desired.id, None
        self._look = _Look(DeliveryStatus(), 0)

    def _progress(self, epoch: int) -> LayoutProgress | None:
        return next((each for each in self._look.status.layouts if each.epoch == epoch), None)

    def _fresh_look(self, work: _Work) -> _Look | None:
        """What was said since the last step, if anything was."""
        look = None
        if self._asking is not None and self._asking.done():
            look, self._asking = self._asking.result(), None
        if self._asking is None and time.monotonic() - self._asked >= _ASK_EVERY:
            self._asked = time.monotonic()
            addresses = [self._members.address(rank) for rank in work.left]
            self._asking = self._threads.submit(self._ask, addresses, counted=work.phase is ScalePhase.MOVING)
        return look

    def _ask(self, addresses: list[str], *, counted: bool) -> _Look:
        return _Look(self._cube.status(), sum(map(self._readers, addresses)) if counted else 0)

    def _readers(self, address: str) -> int:
        try:
            with CubeCommands(
                address, name=self._cube.name, token=self._cube.token.encode(), patience=0.0, deadline=2.0
            ) as server:
                return server.status().readers
        except PeerError:
            return 1  # it is being started again, and its readers may come back to it
