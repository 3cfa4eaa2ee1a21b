"""A lease is always with somebody who lives and knows of it: else an epoch waits for ever."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clickline.ps.protocol.work_messages import NextRequest
from support.eventually import eventually
from support.training.coordinators import AnsweringCoordinator, Asked, next_work, silence


@pytest.fixture
def coordinator(small_job: Any, tmp_path: Path) -> Iterator[AnsweringCoordinator]:
    made = AnsweringCoordinator(small_job, tmp_path / "run")
    yield made
    made.close()


def waiting(coordinator: AnsweringCoordinator, client: int) -> bool:
    with coordinator.state.changed:
        return client in coordinator.state.snapshots.idle


def test_a_question_that_waited_while_its_asker_died_gets_no_lease(coordinator: AnsweringCoordinator) -> None:
    """Between two epochs nothing is offered. The trainer dies, and then the next epoch begins."""
    state, failures = coordinator.state, coordinator.failures
    trainer = coordinator.member()
    trainer.join()
    state.lifecycle.begun = True
    state.offer(None)
    silence(trainer)  # which would join again, being alive
    with state.changed:
        state.snapshots.idle.clear()
    asked = Asked(trainer, NextRequest(leases=[]))
    eventually(lambda: waiting(coordinator, trainer.client), what="the question waits")
    failures.process_ended("trainer", 0, "died, killed by SIGKILL (9)")
    for holder in failures.orphaned_holders():
        failures.return_leases(holder, {})
    coordinator.offer(1)
    asked.answer()
    assert state.leases.table.active == ()
    assert state.leases.table.remaining == 1


def test_a_lease_without_a_living_holder_is_returned(
    coordinator: AnsweringCoordinator, caplog: pytest.LogCaptureFixture
) -> None:
    state, failures = coordinator.state, coordinator.failures
    trainer = coordinator.member()
    trainer.join()
    coordinator.offer(2)
    mine = next_work(trainer, [])
    state.leases.table.take("trainer.9 (abc)")  # whatever the cause
    state.lifecycle.begun = True
    with caplog.at_level("WARNING"):
        failures.check()
    assert failures.orphaned_holders() == ["trainer.9 (abc)"]
    assert "trainer.9 (abc) holds a lease and is not a living member" in caplog.text
    failures.return_leases("trainer.9 (abc)", {})
    assert [held.lease.number for held in state.leases.table.active] == [mine.work.lease]
    assert state.leases.table.remaining == 1


def test_a_lease_whose_answer_was_lost_is_offered_again(coordinator: AnsweringCoordinator) -> None:
    trainer = coordinator.member()
    trainer.join()
    coordinator.offer(2)
    lost = next_work(trainer, [])
    again = next_work(trainer, [])
    assert again == lost
    other = next_work(trainer, [lost.work.lease])
    assert other.work.piece != lost.work.piece


def test_a_trainer_that_comes_back_is_not_forgotten_as_dead(coordinator: AnsweringCoordinator) -> None:
    state, failures = coordinator.state, coordinator.failures
    trainer = coordinator.member()
    trainer.join()
    with state.changed:
        failures.give_up(state.members.by_client[trainer.client], "was silent for 30 s")
    eventually(lambda: state.members.named("trainer", 0).state == "well", what="its heartbeat joins again")
    assert failures.take_departed() == []
    assert state.incarnations.replaced == []
    trainer.join()
    failures.process_ended("trainer", 0, "died")
    assert failures.take_departed() == [trainer.client]


def test_a_roll_back_is_remembered_until_its_book_is_taken_up(coordinator: AnsweringCoordinator) -> None:
    """Somebody dies between the two: what is written then still has the book."""
    state = coordinator.state
    coordinator.offer(4)
    state.leases.table.take("trainer.5 (5)")
    state.record_for_checkpoint()
    saved = state.record.book
    state.rewind(None)
    state.record.book = saved
    coordinator.failures.return_leases("trainer.8 (8)", {})
    assert state.record.book == saved


def test_a_dead_trainers_piece_goes_on_where_all_servers_had_its_pushes(coordinator: AnsweringCoordinator) -> None:
    """One server had its pushes of 50 rows, the other those of 100: rows 51 to 100 are read again, and counted."""
    coordinator.offer(1)
    table = coordinator.state.leases.table
    lost = table.take("trainer.9 (abc)")
    assert lost is not None
    coordinator.failures.return_leases("trainer.9 (abc)", {lost.number: (50, 100)})
    again = table.take("trainer.8 (abd)")
    assert again is not None
    assert (again.piece, again.skip) == (lost.piece, 50)
    assert table.repeated_rows == 50
