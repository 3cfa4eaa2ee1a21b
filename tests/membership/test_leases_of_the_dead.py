"""A lease is always with somebody who lives and knows of it: else an epoch waits for ever."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from desks import Asked, Office, silence, until


@pytest.fixture
def office(small_job: Any, tmp_path: Path) -> Iterator[Office]:
    made = Office(small_job, tmp_path / "run")
    yield made
    made.close()


def waiting(office: Office, client: int) -> bool:
    with office.desk.changed:
        return client in office.desk._still


def test_a_question_that_waited_while_its_asker_died_gets_no_lease(office: Office) -> None:
    """Between two epochs nothing is offered. The trainer dies, and then the next epoch begins."""
    desk = office.desk
    trainer = office.member()
    trainer.join()
    desk.begun = True
    desk.offer(None, [])
    silence(trainer)  # which would join again, being alive
    with desk.changed:
        desk._still.clear()
    asked = Asked(trainer, "next", {"leases": []})
    until(lambda: waiting(office, trainer.client), what="the question waits")
    desk.died("trainer", 0, "died, killed by SIGKILL (9)")
    for holder in desk.all_dead():
        desk.bury(holder, {})
    office.offer(1)
    asked.answer()
    assert desk.book.active == ()
    assert desk.book.remaining == 1


def test_a_lease_without_a_living_holder_is_returned(office: Office, caplog: pytest.LogCaptureFixture) -> None:
    desk = office.desk
    trainer = office.member()
    trainer.join()
    office.offer(2)
    mine = trainer.ask("next", {"client": trainer.client, "leases": []})[0]
    desk.book.take("trainer.9 (abc)")  # whatever the cause
    desk.begun = True
    with caplog.at_level("WARNING"):
        desk.look()
    assert desk.all_dead() == ["trainer.9 (abc)"]
    assert "trainer.9 (abc) holds a lease and is no living member" in caplog.text
    desk.bury("trainer.9 (abc)", {})
    assert [held.lease.number for held in desk.book.active] == [mine["lease"]]
    assert desk.book.remaining == 1


def test_a_lease_whose_answer_was_lost_is_offered_again(office: Office) -> None:
    trainer = office.member()
    trainer.join()
    office.offer(2)
    lost = trainer.ask("next", {"client": trainer.client, "leases": []})[0]
    again = trainer.ask("next", {"client": trainer.client, "leases": []})[0]
    assert again == lost
    other = trainer.ask("next", {"client": trainer.client, "leases": [lost["lease"]]})[0]
    assert other["piece"] != lost["piece"]


def test_a_trainer_that_comes_back_is_not_forgotten_as_dead(office: Office) -> None:
    desk = office.desk
    trainer = office.member()
    trainer.join()
    with desk.changed:
        desk._died(desk.roster.peers[trainer.client], "was silent for 30 s")
    until(lambda: desk.roster.named("trainer", 0).state == "well", what="its heartbeat joins again")
    assert desk.forgotten() == []
    assert desk.replaced() == []
    trainer.join()
    desk.died("trainer", 0, "died")
    assert desk.forgotten() == [trainer.client]


def test_a_roll_back_is_remembered_until_its_book_is_taken_up(office: Office) -> None:
    """Somebody dies between the two: what is written then still has the book."""
    desk = office.desk
    office.offer(4)
    desk.book.take("trainer.5 (5)")
    desk.facts()
    book = desk.standing.book
    desk.rewind(None)
    desk.standing.book = book
    desk.bury("trainer.8 (8)", {})
    assert desk.standing.book == book


def test_a_dead_trainers_piece_goes_on_where_all_servers_had_its_pushes(office: Office) -> None:
    """One server had its pushes of 50 rows, the other those of 100: rows 51 to 100 are read again, and counted."""
    desk = office.desk
    office.offer(1)
    lost = desk.book.take("trainer.9 (abc)")
    assert lost is not None
    desk.bury("trainer.9 (abc)", {lost.number: (50, 100)})
    again = desk.book.take("trainer.8 (abd)")
    assert again is not None
    assert (again.piece, again.skip) == (lost.piece, 50)
    assert desk.book.repeated_rows == 50
