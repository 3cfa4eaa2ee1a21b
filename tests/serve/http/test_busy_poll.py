"""After an answer a loop polls for a moment; where that does not pay, it sleeps."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from clickline.serve.http import busy_poll
from clickline.serve.http.busy_poll import BUSY, REST, BusyPoll

SECONDS = 2e-4
TURN = 1e-5


@dataclass
class Turns:
    """A loop whose clock goes on by a fixed time with every turn."""

    now: float = 100.0
    waiting: list[Callable[[], None]] = field(default_factory=list)

    def call_soon(self, call: Callable[[], None]) -> None:
        self.waiting.append(call)

    def turn(self, seconds: float = TURN) -> bool:
        """Whether the loop polls: it has something to call."""
        self.now += seconds
        for call in (calls := self.waiting.copy()):
            self.waiting.remove(call)
            call()
        return bool(calls)


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> Turns:
    made = Turns()
    monkeypatch.setattr(busy_poll, "perf_counter", lambda: made.now)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    return made


def awake(turns: Any, *, seconds: float = SECONDS) -> BusyPoll:
    return BusyPoll(turns, seconds=seconds)


def test_it_polls_for_the_given_time_and_then_sleeps(turns: Turns) -> None:
    one = awake(turns)
    one.response_sent()
    polled = 0
    while turns.turn():
        polled += 1
    assert polled == pytest.approx(SECONDS / TURN, abs=2)


def test_after_polling_in_vain_it_rests(turns: Turns) -> None:
    one = awake(turns)
    one.response_sent()
    while turns.turn():
        pass
    one.response_sent()
    assert not turns.turn()
    turns.turn(REST)
    one.response_sent()
    assert turns.turn()


def test_who_is_asked_in_time_goes_on_polling_after_every_answer(turns: Turns) -> None:
    one = awake(turns)
    for _ in range(3):
        one.response_sent()
        assert turns.turn()
        one.request_came()
        assert turns.turn(10 * BUSY)  # the request was worked on meanwhile
        assert not turns.turn()


def test_several_answers_in_one_go_do_not_look_like_a_busy_machine(turns: Turns) -> None:
    one = awake(turns)
    for _ in range(8):
        turns.now += BUSY
        one.response_sent()
    assert turns.turn()
    assert turns.turn()


def test_it_sleeps_if_somebody_else_wants_the_core(turns: Turns) -> None:
    one = awake(turns)
    one.response_sent()
    assert turns.turn(2 * BUSY)
    assert not turns.turn()
    one.response_sent()
    assert not turns.turn()


def test_it_never_polls_if_told_so_or_on_one_core(turns: Turns, monkeypatch: pytest.MonkeyPatch) -> None:
    one = awake(turns, seconds=0.0)
    one.response_sent()
    assert not turns.turn()
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    one = awake(turns)
    one.response_sent()
    assert not turns.turn()
