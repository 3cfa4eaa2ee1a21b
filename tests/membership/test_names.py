"""One process for each name: who may have it, who is refused, and who learns that it was replaced."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from desks import TOKEN, Office, silence, until

from clickline.errors import PeerError, ReplacedError
from clickline.processes.process_identity import birth
from clickline.ps.coordinator.record import Standing
from clickline.ps.entrypoints import run_trainer
from clickline.ps.process_role import ProcessRole


@pytest.fixture
def office(small_job: Any, tmp_path: Path) -> Iterator[Callable[..., Office]]:
    made: list[Office] = []

    def make(name: str = "run", **options: Any) -> Office:
        made.append(Office(small_job, tmp_path / name, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


def held_by(office: Office, name: str) -> int:
    role, _, rank = name.partition(".")
    peer = office.desk.roster.named(role, int(rank))
    return 0 if peer is None else peer.client


def test_a_living_process_keeps_its_name_and_the_other_is_told_who_has_it(office: Callable[..., Office]) -> None:
    desk = office()
    first = desk.member()
    first.join()
    second = desk.member(pid=1)
    with pytest.raises(ReplacedError, match=rf"trainer\.0 is process {os.getppid()} on {socket.gethostname()}"):
        second.join()
    assert held_by(desk, "trainer.0") == first.client
    assert (first.failure, desk.desk.roster.restarts, desk.desk.standing.faults) == (None, 0, [])


def test_a_silent_process_loses_its_name_and_ends_when_it_asks(office: Callable[..., Office]) -> None:
    desk = office()
    desk.offer(3)
    first = desk.member()
    first.join()
    lease = first.ask("next", {"client": first.client, "leases": []})[0]["lease"]
    silence(first)
    second = desk.member(pid=1)
    second.join()
    assert held_by(desk, "trainer.0") == second.client
    with pytest.raises(ReplacedError, match="replaced by incarnation 2"):
        first.ask("finished", {"client": first.client, "lease": lease, "rows": 5, "generation": 1}, once=True)
    # It is the replacement, not the piece, that took the first one down.
    assert desk.desk._dead == {f"trainer.0 ({first.client:x})": False}
    with pytest.raises(ReplacedError):
        first.join()


def test_a_replaced_process_hears_of_it_by_its_heartbeat(office: Callable[..., Office]) -> None:
    desk = office()
    first = desk.member()
    first.join()
    ended: list[bool] = []
    first.on_stop = lambda: ended.append(True)
    with desk.desk.changed:
        desk.desk.roster.peers[first.client].heard -= 100  # as if it had been stopped
        refused = desk.desk._on_join({**first._introduction, "client": 77, "pid": 1, "incarnation": 0}, {})
    assert refused["incarnation"] == 2
    until(lambda: ended, what="it is told to end")
    assert isinstance(first.failure, ReplacedError)


def test_a_process_that_has_ended_is_replaced_at_once(office: Callable[..., Office]) -> None:
    """On the same machine the new one can see that the old one is gone, and need not wait for silence."""
    desk = office(warn_after=1000.0)
    child = subprocess.Popen(["sleep", "600"])
    first = desk.member(pid=child.pid)
    assert birth(child.pid)
    first.join()
    silence(first)
    child.kill()
    child.wait()
    second = desk.member(pid=1)
    assert second.join()["incarnation"] == 2
    assert "trainer.0 died" in desk.desk.standing.faults


def test_a_new_coordinator_knows_who_was_replaced(office: Callable[..., Office]) -> None:
    before = office()
    first = before.member()
    first.join()
    silence(first)
    second = before.member(pid=1)
    second.join()
    silence(second)
    standing = Standing.from_dict(json.loads((before.directory / "coordinator.json").read_text()))
    after = office("other", standing=standing)
    for member, fate in ((first, "replaced"), (second, "knows")):
        facts = {**member._introduction, "writer_epoch": 1}
        with after.desk.changed:
            said = after.desk.incarnations.refusal(facts)
        assert (said is None) == (fate == "knows"), said
    # A third one waits: the second may only be slow to find the new coordinator.
    stranger = {**second._introduction, "client": 5, "incarnation": 0, "pid": 4242}
    held = after.desk.incarnations.refusal(stranger)
    assert held is not None and held["held"]["client"] == second.client


def test_faults_that_are_kept_have_a_limit(office: Callable[..., Office]) -> None:
    desk = office().desk
    for number in range(1000):
        desk._fault(f"fault {number}")
    assert len(desk.standing.faults) == 200
    assert desk.standing.faults[-1] == "fault 999"


def test_a_coordinator_learns_from_members_that_it_was_replaced(office: Callable[..., Office]) -> None:
    desk = office(retry_for=0.5)
    member = desk.member()
    member.join()
    silence(member)
    before = (desk.directory / "coordinator.json").read_text()
    member.writer_epoch = 7
    with pytest.raises(Exception, match="answered by a coordinator that was replaced"):
        member.ask("next", {"client": member.client})
    assert "was replaced" in (desk.desk.overtaken or "")
    desk.desk.enter("training")
    desk.desk.stop("it would tell everybody to stop")
    assert desk.desk.stopping is None
    assert (desk.directory / "coordinator.json").read_text() == before


def test_a_trainer_that_joins_a_run_that_is_ending_is_told_so(office: Callable[..., Office]) -> None:
    desk = office(pservers=1)
    desk.desk.stop("the disk is full")
    member = desk.member()
    with pytest.raises(PeerError, match=r"trainer\.0 came when the run was ending: the disk is full"):
        member.join()
    assert member.stopping == "the disk is full"


def test_a_trainer_process_that_comes_when_the_run_is_ending_ends_well(office: Callable[..., Office]) -> None:
    """Whoever starts it again after its death would otherwise count a failure, three times, and then of the run."""
    desk = office(pservers=1)
    desk.desk.stop("the run is over")
    place = ProcessRole(
        role="trainer",
        rank=0,
        pservers=[desk.wire.address],
        trainers=1,
        coordinator=desk.wire.address,
        token=TOKEN,
        bind="",
        directory=desk.directory,
    )
    run_trainer(desk.job, place)


def test_what_a_trainer_of_another_run_says_does_not_count(office: Callable[..., Office]) -> None:
    """Same address, token, job, generation and numbers of leases: a run that was resumed before its trainers knew."""
    earlier = office()
    stranger = earlier.member()
    stranger.join()
    desk = office("again")
    stranger_now = desk.member()  # it has joined, but not this run
    holder = desk.member(rank=1)
    holder.join()
    desk.offer(2)
    lease = holder.ask("next", {"client": holder.client})[0]["lease"]
    generation = desk.desk.standing.generation
    sizes = {"sizes": np.array([100]), "losses": np.array([0.5])}
    facts = {"client": stranger_now.client, "generation": generation}
    stranger_now.ask("report", {**facts, "tick": 0, "step": 0}, sizes)
    assert stranger_now.ask("finished", {**facts, "lease": lease, "rows": 100})[0]["counted"] is False
    paused = {**facts, "rank": 0, "progress": [[lease, 50]], "step": 0}
    assert stranger_now.ask("paused", paused)[0]["abandon"] is True
    stranger_now.ask("failed", {"client": stranger_now.client, "reason": "it cannot go on"})
    assert desk.desk.standing.rows == 0
    assert desk.desk.stopping is None
    (held,) = desk.desk.book.active
    assert (held.lease.number, held.rows) == (lease, 0)
