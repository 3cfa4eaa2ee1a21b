"""A coordinator's desk on a real socket, and members that join it: membership without training."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from clickline import _native
from clickline.config import Job
from clickline.data.leasing.leases import LeaseTable
from clickline.data.leasing.pieces import Piece
from clickline.data.schema import Schema
from clickline.processes.process_identity import birth
from clickline.ps.coordinator.handlers import Desk
from clickline.ps.coordinator.record import Standing, StandingFile
from clickline.ps.coordinator_client import Member
from clickline.train.run_files.run_lock import RunLock

TOKEN = b"a token of the tests"
QUICK = {"heartbeat": 0.1, "warn_after": 0.6, "evict_after": 60, "deadline": 5, "retry_for": 5, "start_timeout": 20}


class Office:
    """A desk that answers, with no pserver to wait for unless the test has one join."""

    def __init__(self, job: Job, directory: Path, *, standing: Standing | None = None, **cluster: Any) -> None:
        cluster = {**QUICK, "pservers": 0, "trainers": 2, **cluster}
        self.job = job.model_copy(update={"cluster": job.cluster.model_copy(update=cluster), "strategy": "async"})
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        taking_over = standing is not None
        standing = standing or Standing()
        schema = Schema.of(self.job.data, self.job.features)
        self._lock = RunLock(directory, role="coordinator")
        self.desk = Desk(
            job=self.job,
            schema=schema,
            directory=directory,
            standing=standing,
            sync=False,
            file=StandingFile(self._lock),
        )
        self.wire = _native.WireServer(
            f"unix:{directory}/desk.sock",
            token=TOKEN,
            job=job.name,
            name="coordinator.0",
            handler=self.desk.handle,
        )
        self.desk.open(taking_over=taking_over)
        self.members: list[Member] = []

    def member(self, role: str = "trainer", rank: int = 0, *, pid: int | None = None) -> Member:
        """Not joined yet. It says that it is another process than the coordinator, as it would be."""
        member = Member(
            role=role,
            rank=rank,
            coordinator=self.wire.address,
            token=TOKEN,
            job=self.job.name,
            cluster=self.job.cluster,
            address=f"unix:/nowhere/{role}.{rank}",
        )
        pid = os.getppid() if pid is None else pid
        member.introduce(pid=pid, born=birth(pid))
        self.members.append(member)
        return member

    def offer(self, pieces: int) -> None:
        """An epoch of so many pieces."""
        book = LeaseTable(pieces, attempts=3, first=self.desk.standing.next_lease)
        self.desk.take_book(book, training=True)
        self.desk.offer("train", [Piece(number, number, f"part-{number}", 0, 1) for number in range(pieces)])

    def close(self) -> None:
        self.desk.stop("the test is over")
        for member in self.members:
            member.leave()
        self.wire.close()
        self._lock.release()


def until(condition: Callable[[], object], *, what: str) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, f"this should have happened by now: {what}"
        time.sleep(0.01)


class Asked(threading.Thread):
    """A question that may wait; `answer` has what came of it once it is done."""

    def __init__(self, member: Member, op: str, facts: dict[str, Any]) -> None:
        super().__init__(daemon=True)
        self._ask = lambda: member.ask(op, {"client": member.client, **facts})[0]
        self._answer: dict[str, Any] | Exception | None = None
        self.start()

    def run(self) -> None:
        try:
            self._answer = self._ask()
        except Exception as error:
            self._answer = error

    def answer(self) -> dict[str, Any] | Exception | None:
        self.join(20)
        return self._answer


def silence(member: Member) -> None:
    """It says nothing any more of its own, as if stopped; it can still be made to ask."""
    member._stopped.set()
    member._lanes[1].cancel()
    member._beating.join(10)
