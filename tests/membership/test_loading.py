"""A server that is told to load while it loads: one copy of the tables at a time, and the newest generation counts."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from desks import TOKEN, until

from clickline._native import Lane
from clickline.data.schema import Schema
from clickline.ps.messages import pack
from clickline.train import checkpoints
from clickline.train.cluster.orders import Orders
from clickline.train.cluster.serving import ParameterServer
from clickline.train.cluster.standing import StandingFile
from clickline.train.run_lock import RunLock


@pytest.fixture
def server(small_job: Any, tmp_path: Path) -> Iterator[ParameterServer]:
    made = ParameterServer(job=small_job, part=0, parts=1, address=f"unix:{tmp_path}/server.sock", token=TOKEN)
    made.set_up(Schema.of(small_job.data, small_job.features))
    yield made
    made.close()


def saved(server: ParameterServer, directory: Path) -> str:
    """A checkpoint of what the server has."""
    lock = RunLock(directory.parent, role="coordinator")
    orders = Orders(
        job=server.job,
        schema=server._schema,
        addresses=[server.wire.address],
        token=TOKEN,
        client=1,
        file=StandingFile(lock),
    )
    facts = {"step": 1, "standing": {}, "job": {}, "schema": {}, "tick": 0}
    try:
        return str(orders.save(directory, facts=facts, buffers={}).path)
    finally:
        orders.close()
        lock.release()


def test_a_load_that_a_newer_one_overtakes_is_given_up(
    server: ParameterServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.load(None, generation=1)
    checkpoint = saved(server, tmp_path / "checkpoints")
    inside, go_on = threading.Event(), threading.Event()
    loads: list[int] = []
    load_tables = checkpoints.load_tables

    def slow(*given: Any, **named: Any) -> None:
        loads.append(1)
        assert len(loads) == 1 or go_on.is_set(), "two loads at once"
        inside.set()
        go_on.wait(60)
        load_tables(*given, **named)

    monkeypatch.setattr(checkpoints, "load_tables", slow)
    outcomes: dict[int, bool] = {}

    def load(generation: int) -> threading.Thread:
        work = lambda: outcomes.update({generation: server.load(checkpoint, generation=generation)})  # noqa: E731
        thread = threading.Thread(target=work)
        thread.start()
        return thread

    first = load(2)
    inside.wait(60)
    assert server.tables == {}, "the old tables are still there while new ones are filled"
    second = load(3)
    until(lambda: server._wanted == 3, what="the second load is wanted")
    go_on.set()
    first.join()
    second.join()
    assert outcomes == {2: False, 3: True}
    assert server.generation == 3


def test_an_order_of_a_coordinator_that_was_replaced_is_not_obeyed(server: ParameterServer) -> None:
    server.load(None, generation=4)
    server.writer_epoch = lambda: 2  # as the server has heard from the coordinator that it follows
    lane = Lane([server.wire.address], token=TOKEN, job=server.job.name, name="coordinator.0", client=1, lane=9)
    facts = {"checkpoint": None, "generation": 5, "warm": None, "order": "x", "writer_epoch": 1}
    try:
        (reply,) = lane.call("load", [pack(facts)])
    finally:
        lane.close()
    assert b'"overtaken": 2' in reply
    assert server.generation == 4
