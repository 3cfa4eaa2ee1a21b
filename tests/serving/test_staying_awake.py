"""After an answer a worker polls for a moment, then sleeps."""

from __future__ import annotations

import asyncio
import os
from typing import cast

import pytest
import uvloop

from clickline.serve.exchanges import Exchange
from clickline.serve.fronts import Front, Timing
from clickline.serve.messages import Response


class Silent:
    def handle(self, exchange: object) -> None: ...
    def resolve(self, exchange: object, found: object) -> None: ...
    def sent(self, exchange: object, response: object) -> None: ...
    def refused(self, error: object) -> None: ...
    def connected(self, connections: int, *, new: bool) -> None: ...


@pytest.fixture
def polls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for every turn of the loop that somebody stayed awake for."""
    seen: list[int] = []
    monkeypatch.setattr(os, "sched_yield", lambda: seen.append(1))
    return seen


def after_answers(answers: int, *, awake: float, polls: list[int]) -> tuple[int, int]:
    """Polls until the front is quiet, and polls after that."""

    async def live() -> tuple[int, int]:
        loop = asyncio.get_running_loop()
        front = Front(Silent(), loop=loop, body_limit=1000, most=10, timing=Timing(), awake=awake)
        for _ in range(answers):
            front.sent(cast(Exchange, None), Response(200))
        before = -1
        while len(polls) != before:
            before = len(polls)
            await asyncio.sleep(2 * awake + 0.01)
        await asyncio.sleep(0.02)
        return before, len(polls) - before

    return uvloop.run(live())


def test_a_worker_polls_after_an_answer_and_then_sleeps(polls: list[int]) -> None:
    during, after = after_answers(3, awake=0.005, polls=polls)
    assert during > 1
    assert after == 0


def test_a_worker_that_nobody_asks_does_not_poll(polls: list[int]) -> None:
    assert after_answers(0, awake=0.005, polls=polls) == (0, 0)


def test_staying_awake_can_be_switched_off(polls: list[int]) -> None:
    assert after_answers(3, awake=0.0, polls=polls) == (0, 0)
