"""One process for each name: who may have it, who is refused, and who learns that it was replaced."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from clickline.errors import PeerError, ReplacedError
from clickline.processes.process_identity import birth
from clickline.ps.coordinator.handlers.context import Caller
from clickline.ps.coordinator.handlers.membership_handlers import join
from clickline.ps.coordinator.state.record import RunRecord
from clickline.ps.coordinator_client import MemberCallbacks
from clickline.ps.entrypoints import run_trainer
from clickline.ps.process_role import ProcessRole
from clickline.ps.protocol import work_messages
from clickline.ps.protocol.refusals import ErrorCode
from support.eventually import eventually
from support.training.coordinators import TOKEN, AnsweringCoordinator, next_work, silence


@pytest.fixture
def coordinator(small_job: Any, tmp_path: Path) -> Iterator[Callable[..., AnsweringCoordinator]]:
    made: list[AnsweringCoordinator] = []

    def make(name: str = "run", **options: Any) -> AnsweringCoordinator:
        made.append(AnsweringCoordinator(small_job, tmp_path / name, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


def held_by(coordinator: AnsweringCoordinator, name: str) -> int:
    role, _, rank = name.partition(".")
    member = coordinator.state.members.named(role, int(rank))
    return 0 if member is None else member.client


def test_a_living_process_keeps_its_name_and_the_other_is_told_who_has_it(
    coordinator: Callable[..., AnsweringCoordinator],
) -> None:
    opened = coordinator()
    first = opened.member()
    first.join()
    second = opened.member(pid=1)
    with pytest.raises(ReplacedError, match=rf"trainer\.0 is process {os.getppid()} on {socket.gethostname()}"):
        second.join()
    assert held_by(opened, "trainer.0") == first.client
    assert (first.failure, opened.state.members.restarts, opened.state.record.faults) == (None, 0, [])


def test_a_silent_process_loses_its_name_and_ends_when_it_asks(
    coordinator: Callable[..., AnsweringCoordinator],
) -> None:
    opened = coordinator()
    opened.offer(3)
    first = opened.member()
    first.join()
    lease = next_work(first, []).work.lease
    silence(first)
    second = opened.member(pid=1)
    second.join()
    assert held_by(opened, "trainer.0") == second.client
    with pytest.raises(ReplacedError, match="replaced by incarnation 2"):
        first.ask(
            work_messages.FinishedRequest(lease=lease, rows=5, generation=1), work_messages.FinishedReply, once=True
        )
    # It is the replacement, not the piece, that took the first one down.
    assert opened.state.failures.orphaned == {f"trainer.0 ({first.client:x})": False}
    with pytest.raises(ReplacedError):
        first.join()


def test_a_replaced_process_hears_of_it_by_its_heartbeat(coordinator: Callable[..., AnsweringCoordinator]) -> None:
    opened = coordinator()
    first = opened.member()
    first.join()
    ended: list[bool] = []
    first.attach(MemberCallbacks(on_stop=lambda: ended.append(True)))
    with opened.state.changed:
        opened.state.members.by_client[first.client].heard -= 100  # as if it had been stopped
        other = msgspec.structs.replace(first._introduction, client=77, pid=1, incarnation=0)
        admitted = join(opened.context, Caller(77), other, {})
    assert admitted.incarnation == 2
    eventually(lambda: ended, what="it is told to end")
    assert isinstance(first.failure, ReplacedError)


def test_a_process_that_has_ended_is_replaced_at_once(coordinator: Callable[..., AnsweringCoordinator]) -> None:
    """On the same machine the new one can see that the old one is gone, and need not wait for silence."""
    opened = coordinator(warn_after=1000.0)
    child = subprocess.Popen(["sleep", "600"])
    first = opened.member(pid=child.pid)
    assert birth(child.pid)
    first.join()
    silence(first)
    child.kill()
    child.wait()
    second = opened.member(pid=1)
    assert second.join().incarnation == 2
    assert "trainer.0 died" in opened.state.record.faults


def test_a_new_coordinator_knows_who_was_replaced(coordinator: Callable[..., AnsweringCoordinator]) -> None:
    before = coordinator()
    first = before.member()
    first.join()
    silence(first)
    second = before.member(pid=1)
    second.join()
    silence(second)
    record = RunRecord.from_dict(json.loads((before.directory / "coordinator.json").read_text()))
    after = coordinator("other", record=record)
    for member, fate in ((first, "replaced"), (second, "knows")):
        request = msgspec.structs.replace(member._introduction, writer_epoch=1)
        with after.state.changed:
            refused = after.state.incarnations.refusal(request)
        assert (refused is None) == (fate == "knows"), refused
        assert refused is None or refused.refusal.code == ErrorCode.PROCESS_REPLACED
    # A third one waits: the second may only be slow to find the new coordinator.
    stranger = msgspec.structs.replace(second._introduction, client=5, incarnation=0, pid=4242)
    held = after.state.incarnations.refusal(stranger)
    assert held is not None and held.refusal.code == ErrorCode.NAME_HELD
    assert held.holder is not None and held.holder.client == second.client


def test_faults_that_are_kept_have_a_limit(coordinator: Callable[..., AnsweringCoordinator]) -> None:
    state = coordinator().state
    for number in range(1000):
        state.failures.note(f"fault {number}")
    assert len(state.record.faults) == 200
    assert state.record.faults[-1] == "fault 999"


def test_a_coordinator_learns_from_members_that_it_was_replaced(
    coordinator: Callable[..., AnsweringCoordinator],
) -> None:
    opened = coordinator(retry_for=0.5)
    member = opened.member()
    member.join()
    silence(member)
    before = (opened.directory / "coordinator.json").read_text()
    member.writer_epoch = 7
    with pytest.raises(Exception, match="answered by a coordinator that was replaced"):
        next_work(member)
    assert "was replaced" in (opened.state.lifecycle.superseded or "")
    opened.state.enter("training")
    opened.state.stop("it would tell everybody to stop")
    assert opened.state.lifecycle.stop_reason is None
    assert (opened.directory / "coordinator.json").read_text() == before


def test_a_trainer_that_joins_a_run_that_is_ending_is_told_so(coordinator: Callable[..., AnsweringCoordinator]) -> None:
    opened = coordinator(pservers=1)
    opened.state.stop("the disk is full")
    member = opened.member()
    with pytest.raises(PeerError, match=r"trainer\.0 came when the run was ending: the disk is full"):
        member.join()
    assert member.stopping == "the disk is full"


def test_a_trainer_process_that_comes_when_the_run_is_ending_ends_well(
    coordinator: Callable[..., AnsweringCoordinator],
) -> None:
    """Whoever starts it again after its death would otherwise count a failure, three times, and then of the run."""
    opened = coordinator(pservers=1)
    opened.state.stop("the run is over")
    place = ProcessRole(
        role="trainer",
        rank=0,
        pservers=[opened.wire.address],
        trainers=1,
        coordinator=opened.wire.address,
        token=TOKEN,
        bind="",
        directory=opened.directory,
    )
    run_trainer(opened.job, place)


def test_what_a_trainer_of_another_run_says_does_not_count(coordinator: Callable[..., AnsweringCoordinator]) -> None:
    """Same address, token, job, generation and numbers of leases: a run that was resumed before its trainers knew."""
    earlier = coordinator()
    stranger = earlier.member()
    stranger.join()
    opened = coordinator("again")
    stranger_now = opened.member()  # it has joined, but not this run
    holder = opened.member(rank=1)
    holder.join()
    opened.offer(2)
    lease = next_work(holder).work.lease
    generation = opened.state.record.generation
    sizes = {"sizes": np.array([100]), "losses": np.array([0.5])}
    report = work_messages.ReportRequest(generation=generation, tick=0, step=0)
    stranger_now.ask(report, work_messages.ReportReply, sizes)
    finished = work_messages.FinishedRequest(generation=generation, lease=lease, rows=100)
    assert stranger_now.ask(finished, work_messages.FinishedReply).counted is False
    paused = work_messages.PausedRequest(generation=generation, rank=0, progress=[(lease, 50)], step=0)
    assert stranger_now.ask(paused, work_messages.PausedReply).abandon is True
    stranger_now.ask(work_messages.FailedRequest(reason="it cannot go on"), work_messages.FailedReply)
    assert opened.state.record.rows == 0
    assert opened.state.lifecycle.stop_reason is None
    (held,) = opened.state.leases.table.active
    assert (held.lease.number, held.rows) == (lease, 0)
