"""A coordinator's state and handlers on a real socket, and members that join it: membership without training."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from clickline import _native
from clickline.config import Job
from clickline.data.leasing.leases import LeaseTable
from clickline.data.leasing.pieces import Piece
from clickline.data.schema import Schema
from clickline.processes.process_identity import birth
from clickline.ps.coordinator.handlers.context import HandlerContext
from clickline.ps.coordinator.handlers.request_dispatcher import RequestDispatcher
from clickline.ps.coordinator.state.failures import FailureDetector
from clickline.ps.coordinator.state.record import RecordFile, RunRecord
from clickline.ps.coordinator.state.run_state import RunState
from clickline.ps.coordinator_client import CoordinatorClient
from clickline.ps.initial_model import InitialModel
from clickline.ps.protocol.member_messages import MemberReply, MemberRequest
from clickline.ps.protocol.work_messages import Action, NextReply, NextRequest
from clickline.train.run_files.run_lock import RunLock

TOKEN = b"a token of the tests"
QUICK = {"heartbeat": 0.1, "warn_after": 0.6, "evict_after": 60, "deadline": 5, "retry_for": 5, "start_timeout": 20}


class AnsweringCoordinator:
    """Handlers that answer, with no pserver to wait for unless the test has one join."""

    def __init__(self, job: Job, directory: Path, *, record: RunRecord | None = None, **cluster: Any) -> None:
        cluster = {**QUICK, "pservers": 0, "trainers": 2, **cluster}
        self.job = job.model_copy(update={"cluster": job.cluster.model_copy(update=cluster), "strategy": "async"})
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        taking_over = record is not None
        schema = Schema.of(self.job.data, self.job.features)
        self._lock = RunLock(directory, role="coordinator")
        self.state = RunState(
            job=self.job,
            schema=schema,
            directory=directory,
            record=record or RunRecord(),
            lockstep=False,
            record_file=RecordFile(self._lock),
        )
        self.state.model = InitialModel({}, {}, np.empty(0, np.float32), {}, np.empty(0, np.uint8))
        """Known, so that no member is asked for it."""
        self.failures = FailureDetector(self.state)
        self.context = HandlerContext(state=self.state, failures=self.failures)
        self.wire = _native.WireServer(
            f"unix:{directory}/coordinator.sock",
            token=TOKEN,
            job=job.name,
            name="coordinator.0",
            handler=RequestDispatcher(self.context).handle,
        )
        self.state.open(taking_over=taking_over)
        self.members: list[CoordinatorClient] = []

    def member(
        self,
        role: str = "trainer",
        rank: int = 0,
        *,
        pid: int | None = None,
        describe_model: Callable[[Schema], InitialModel] | None = None,
    ) -> CoordinatorClient:
        """Not joined yet. It says that it is another process than the coordinator, as it would be."""
        member = CoordinatorClient(
            role=role,
            rank=rank,
            coordinator=self.wire.address,
            token=TOKEN,
            job=self.job.name,
            cluster=self.job.cluster,
            address=f"unix:/nowhere/{role}.{rank}",
            describe_model=describe_model,
        )
        pid = os.getppid() if pid is None else pid
        member.introduce(pid=pid, born=birth(pid))
        self.members.append(member)
        return member

    def offer(self, pieces: int) -> None:
        """An epoch of so many pieces."""
        table = LeaseTable(pieces, attempts=3, first=self.state.record.next_lease)
        self.state.use_leases(table, training=True)
        self.state.offer(Action.TRAIN, [Piece(number, number, f"part-{number}", 0, 1) for number in range(pieces)])

    def close(self) -> None:
        self.state.stop("the test is over")
        for member in self.members:
            member.leave()
        self.wire.close()
        self._lock.release()


def next_work(member: CoordinatorClient, leases: list[int] | None = None) -> NextReply:
    """What a trainer is told that asks for work; `leases`: those it knows of."""
    return member.ask(NextRequest(leases=leases), NextReply)


class Asked(threading.Thread):
    """A request that may wait; `answer` has what came of it once it is done."""

    def __init__(self, member: CoordinatorClient, request: MemberRequest) -> None:
        super().__init__(daemon=True)
        self._ask = lambda: member.ask(request, request.reply)
        self._answer: MemberReply | Exception | None = None
        self.start()

    def run(self) -> None:
        try:
            self._answer = self._ask()
        except Exception as error:
            self._answer = error

    def answer(self) -> MemberReply | Exception | None:
        self.join(20)
        return self._answer


def silence(member: CoordinatorClient) -> None:
    """It sends nothing any more by itself, as if stopped; it can still be made to ask."""
    member._stopped.set()
    member._lanes[1].cancel()
    member._beating.join(10)
