"""A server that is told to load while it loads: one copy of the tables at a time, and the newest generation counts."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clickline._native import Lane
from clickline.data.schema import Schema
from clickline.ps.coordinator.pserver_admin import PserverAdmin
from clickline.ps.coordinator.state.record import RecordFile
from clickline.ps.protocol.framing import pack, unpack
from clickline.ps.protocol.pserver_messages import LoadReply, LoadRequest
from clickline.ps.protocol.refusals import ErrorCode
from clickline.ps.server.server import ParameterServer
from clickline.ps.trainer.built_model import BuiltModel
from clickline.train.checkpoints import checkpoint_files
from clickline.train.run_files.run_lock import RunLock
from support.eventually import eventually
from support.training.coordinators import TOKEN


@pytest.fixture
def server(small_job: Any, tmp_path: Path) -> Iterator[ParameterServer]:
    made = ParameterServer(job=small_job, part=0, parts=1, address=f"unix:{tmp_path}/server.sock", token=TOKEN)
    made.set_up(Schema.of(small_job.data, small_job.features))
    made.fetch_model = lambda: BuiltModel(small_job).initial(Schema.of(small_job.data, small_job.features))
    yield made
    made.close()


def saved(server: ParameterServer, directory: Path) -> str:
    """A checkpoint of what the server has."""
    lock = RunLock(directory.parent, role="coordinator")
    admin = PserverAdmin(
        job=server.job,
        model=server.fetch_model,
        addresses=[server.wire.address],
        token=TOKEN,
        client=1,
        file=RecordFile(lock),
    )
    manifest = {"step": 1, "standing": {}, "job": {}, "schema": {}, "tick": 0}
    try:
        return str(admin.save(directory, manifest=manifest, buffers={}).path)
    finally:
        admin.close()
        lock.release()


def test_a_load_that_a_newer_one_overtakes_is_given_up(
    server: ParameterServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.load(None, generation=1)
    checkpoint = saved(server, tmp_path / "checkpoints")
    inside, go_on = threading.Event(), threading.Event()
    loads: list[int] = []
    load_tables = checkpoint_files.load_tables

    def slow(*given: Any, **named: Any) -> None:
        loads.append(1)
        assert len(loads) == 1 or go_on.is_set(), "two loads at once"
        inside.set()
        go_on.wait(60)
        load_tables(*given, **named)

    monkeypatch.setattr(checkpoint_files, "load_tables", slow)
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
    eventually(lambda: server._wanted == 3, what="the second load is wanted")
    go_on.set()
    first.join()
    second.join()
    assert outcomes == {2: False, 3: True}
    assert server.generation == 3


def test_an_order_of_a_coordinator_that_was_replaced_is_not_obeyed(server: ParameterServer) -> None:
    server.load(None, generation=4)
    server.hear_of_coordinator(2)  # as the server has heard from the coordinator that it follows
    lane = Lane([server.wire.address], token=TOKEN, job=server.job.name, name="coordinator.0", client=1, lane=9)
    request = LoadRequest(checkpoint=None, generation=5, warm=None, order="x", writer_epoch=1)
    try:
        (body,) = lane.call("load", [pack(request)])
    finally:
        lane.close()
    reply, _ = unpack(body, LoadReply)
    assert reply.refusal is not None
    assert (reply.refusal.code, reply.writer_epoch) == (ErrorCode.COORDINATOR_REPLACED, 2)
    assert server.generation == 4


def test_an_order_that_is_sent_again_is_not_done_again(server: ParameterServer) -> None:
    """A coordinator whose connection broke cannot know whether its order was done; what was learned since stays."""
    lane = Lane([server.wire.address], token=TOKEN, job=server.job.name, name="coordinator.0", client=1, lane=9)
    first = LoadRequest(checkpoint=None, generation=1, warm=None, order="first")
    second = LoadRequest(checkpoint=None, generation=1, warm=None, order="second")
    keys, ones = np.array([3, 5], np.uint64), np.ones(2, np.float32)
    try:
        answers = lane.call("load", [pack(first)])
        table = server.tables["embedding"]
        table.push(keys, np.ones((2, 4), np.float32), ones, ones, np.zeros(2, np.uint16), tick=1)
        assert lane.call("load", [pack(first)]) == answers
        assert sorted(server.tables["embedding"].keys().tolist()) == [3, 5]
        lane.call("load", [pack(second)])
        assert len(server.tables["embedding"]) == 0
    finally:
        lane.close()


def test_an_order_that_overtakes_the_answer_to_joining_waits_for_the_schema(small_job: Any, tmp_path: Path) -> None:
    server = ParameterServer(job=small_job, part=0, parts=1, address=f"unix:{tmp_path}/server.sock", token=TOKEN)
    lane = Lane([server.wire.address], token=TOKEN, job=small_job.name, name="coordinator.0", client=1, lane=9)
    request = LoadRequest(checkpoint=None, generation=2, warm=None, order="x")
    answers: list[bytes] = []
    asking = threading.Thread(target=lambda: answers.extend(lane.call("load", [pack(request)])))
    try:
        asking.start()
        eventually(lambda: server._wanted == 2, what="the order has come")
        schema = Schema.of(small_job.data, small_job.features)
        server.fetch_model = lambda: BuiltModel(small_job).initial(schema)
        server.set_up(schema)
        asking.join(60)
        assert len(answers) == 1
        assert server.generation == 2
    finally:
        server.close()
        asking.join(60)
        lane.close()


def test_a_load_waits_for_the_model_until_the_server_is_told_to_stop(small_job: Any, tmp_path: Path) -> None:
    """Only a trainer can say what the model is, and none may ever come."""
    server = ParameterServer(job=small_job, part=0, parts=1, address=f"unix:{tmp_path}/server.sock", token=TOKEN)
    server.set_up(Schema.of(small_job.data, small_job.features))
    asked, outcomes = threading.Event(), []
    server.fetch_model = asked.set
    loading = threading.Thread(target=lambda: outcomes.append(server.load(None, generation=1)))
    try:
        loading.start()
        assert asked.wait(60)
        server.stopped.set()
        loading.join(60)
        assert outcomes == [False]
    finally:
        server.close()
        loading.join(60)
