"""What the model is, servers and the coordinator hear from the first trainer, and a new coordinator asks again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clickline.data.schema import Schema
from clickline.errors import ModelError
from clickline.ps.initial_model import InitialModel
from clickline.ps.protocol.model_messages import DescribeModelReply, DescribeModelRequest, described
from clickline.ps.protocol.refusals import ErrorCode
from clickline.ps.trainer.built_model import BuiltModel
from clickline.ps.trainer.trainer import report_failure
from support.eventually import eventually
from support.training.coordinators import AnsweringCoordinator, silence


@pytest.fixture
def opened(small_job: Any, tmp_path: Path) -> Iterator[AnsweringCoordinator]:
    """A coordinator that does not know the model yet."""
    coordinator = AnsweringCoordinator(small_job, tmp_path / "run")
    coordinator.state.model = None
    yield coordinator
    coordinator.close()


def not_wanted(schema: Schema) -> InitialModel:
    raise AssertionError("a model was built to be described, although it is known")


def same(one: InitialModel, other: InitialModel) -> bool:
    return (
        (one.embeddings, one.shapes) == (other.embeddings, other.shapes)
        and list(one.shapes) == list(other.shapes)
        and np.array_equal(one.values, other.values)
        and np.array_equal(one.random_state, other.random_state)
        and one.buffers.keys() == other.buffers.keys()
        and all(np.array_equal(one.buffers[name], other.buffers[name]) for name in one.buffers)
    )


def test_the_first_trainer_describes_it_and_servers_get_the_same(opened: AnsweringCoordinator) -> None:
    server = opened.member("pserver")
    server.join()
    assert server.model() is None
    built = BuiltModel(opened.job)
    opened.member(describe_model=built.initial).join()
    opened.member(rank=1, describe_model=not_wanted).join()
    told = server.model()
    assert told is not None
    assert same(told, built.initial(opened.state.schema))
    assert told.values.size > 0
    parts = told.named(told.values)
    assert np.array_equal(told.vector(parts), told.values)
    model = built.model(opened.state.schema)
    assert {name: array.shape for name, array in parts.items()} == {
        n: tuple(p.shape) for n, p in model.named_parameters()
    }


def test_a_server_that_waits_for_it_hears_at_once_that_the_run_is_over(opened: AnsweringCoordinator) -> None:
    server = opened.member("pserver")
    server.join()
    silence(server)
    opened.state.stop("nobody came")
    assert server.model() is None
    assert server.stopping == "nobody came"


def test_a_process_that_was_not_asked_describes_nothing(opened: AnsweringCoordinator) -> None:
    """It may be of a run before this one, with another model."""
    description, arrays = described(BuiltModel(opened.job).initial(opened.state.schema))
    reply = opened.member().ask(DescribeModelRequest(model=description), DescribeModelReply, arrays)
    assert reply.refusal is not None and reply.refusal.code == ErrorCode.NOT_A_MEMBER
    assert opened.state.model is None


def test_a_model_that_cannot_be_built_ends_the_run_with_the_reason(opened: AnsweringCoordinator) -> None:
    def broken(schema: Schema) -> InitialModel:
        raise ModelError("a layer of 0 units")

    trainer = opened.member(describe_model=broken)
    with pytest.raises(ModelError) as caught:
        trainer.join()
    report_failure(trainer, caught.value)
    assert opened.state.lifecycle.stop_reason == "trainer.0: a layer of 0 units"


def test_a_coordinator_that_does_not_know_it_asks_those_that_have_lived_on(opened: AnsweringCoordinator) -> None:
    """As one that takes over: the trainer trains on, and describes the model as it was at first."""
    built = BuiltModel(opened.job)
    opened.member(describe_model=built.initial).join()
    first = opened.state.model
    assert first is not None
    for parameter in built.model(opened.state.schema).parameters():
        parameter.data.add_(1.0)
    with opened.state.changed:
        opened.state.model = None
        opened.state.members.by_client.clear()
    again = eventually(lambda: opened.state.model, what="the model is described again")
    assert same(again, first)
    eventually(lambda: opened.state.members.live("trainer"), what="the trainer is back")
