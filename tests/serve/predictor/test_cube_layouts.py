"""A predictor moves to another layout of its cube as to a version: whole, checked, and never within a request."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from clickline import _native
from clickline.cube.cube_client import Cube
from clickline.cube.layouts.layout import Layout, LayoutsUnknownError, Replica
from clickline.serve.predictor.cube_layouts import CubeLayouts
from clickline.serve.predictor.predictor import Predictor
from clickline.serve.predictor.served_model import ServedModel
from clickline.versions import donefile
from clickline.versions.chain import opened, opened_without_rows
from support.cubes.cube_servers import NAME, TOKEN, CubeServers
from support.eventually import eventually
from support.serving.raw_rows import ask, assert_close
from support.versions.known_versions import Known


class ChangingLayouts:
    """A source that says what a test wants it to say."""

    def __init__(self, *layouts: Layout) -> None:
        self.listed: tuple[Layout, ...] = layouts

    def layouts(self) -> tuple[Layout, ...]:
        if not self.listed:
            raise LayoutsUnknownError("nobody knows")
        return self.listed


def layout_of(servers: CubeServers, epoch: int, *further: CubeServers) -> Layout:
    """The layout of these servers; `further` are more replicas of each shard."""
    shards = zip(*(each.addresses for each in (servers, *further)), strict=True)
    return Layout(epoch, tuple(tuple(Replica("", address) for (address,) in replicas) for replicas in shards))


def connect(layout: Layout) -> Cube:
    # With a hedge that nearly always comes: what it has asked must be let go of, too.
    return Cube.connect(layout.servers, name=NAME, token=TOKEN, timeout=5.0, retries=0, hedge=1e-6)


@pytest.fixture
def two(known: Known) -> Iterator[CubeServers]:
    with CubeServers(known.store, shards=2) as servers:
        servers.load(2, 3)
        servers.switch(3)
        yield servers


@pytest.fixture
def three(known: Known) -> Iterator[CubeServers]:
    """Three shards that have nothing yet."""
    with CubeServers(known.store, shards=3) as servers:
        yield servers


@pytest.fixture
def source(two: CubeServers) -> ChangingLayouts:
    return ChangingLayouts(layout_of(two, 1))


@pytest.fixture
def served(known: Known, source: ChangingLayouts) -> ServedModel:
    found = ServedModel("ctr", known.store, cube=CubeLayouts(source, connect), interval=3600)
    assert found.refresh(), found.status()
    return found


def epoch_of(served: ServedModel) -> int:
    return served.model_version().layout


def readers(servers: CubeServers) -> int:
    return sum(server.counts()["connections"] for server in servers.servers)


def test_it_moves_when_every_shard_has_the_version_and_not_before(
    known: Known, served: ServedModel, source: ChangingLayouts, two: CubeServers, three: CubeServers
) -> None:
    source.listed = (layout_of(two, 1), layout_of(three, 2))
    assert not served.refresh(), "the new layout has nothing"
    three.load(3)
    assert not served.refresh(), "it serves nothing"
    three.servers[-1].drop(3)
    for server in three.servers[:-1]:
        server.switch(3, 1)
    assert not served.refresh(), "the last shard lacks the version"
    assert epoch_of(served) == 1
    with opened(known.store, 3, done=donefile.read(known.store)) as chain:
        three.servers[-1].load(3, {name: _native.Layers(layers) for name, layers in chain.layers.items()})
    with Predictor({"ctr": served}) as predictor:
        assert served.refresh()
        assert (epoch_of(served), served.model_version().version) == (2, 3)
        assert_close(ask(predictor, known.rows).probability, known.expected[3])


def test_a_request_that_has_begun_ends_with_the_layout_that_it_was_given(
    known: Known, served: ServedModel, source: ChangingLayouts, two: CubeServers, three: CubeServers
) -> None:
    held = served.model_version()
    source.listed = (layout_of(two, 1), layout_of(three, 2))
    three.load(3)
    three.switch(3)
    assert served.refresh()
    two_before = [server.counts()["gets"] for server in two.servers]
    with Predictor({"ctr": served}) as predictor:
        assert_close(ask(predictor, known.rows).probability, known.expected[3])
    assert [server.counts()["gets"] for server in two.servers] == two_before, "asked of the old layout"
    assert held.layout == 1
    with opened_without_rows(known.store, 3, done=donefile.read(known.store)) as chain:
        held.check(chain.sample())
    assert [server.counts()["gets"] for server in two.servers] != two_before
    assert readers(two) > 0
    del held
    eventually(lambda: readers(two) == 0, what="no reader left at the old layout")


def test_a_layout_that_serves_another_version_is_not_moved_to_while_the_current_one_is_listed(
    served: ServedModel, source: ChangingLayouts, two: CubeServers, three: CubeServers
) -> None:
    source.listed = (layout_of(two, 1), layout_of(three, 2))
    three.load(2)
    three.switch(2)
    assert not served.refresh()
    assert epoch_of(served) == 1
    two.switch(2)  # a rollback, which reached the new layout first
    assert served.refresh()
    assert (epoch_of(served), served.model_version().version) == (2, 2)


def test_a_layout_that_is_no_longer_listed_is_left_for_one_that_is(
    served: ServedModel, source: ChangingLayouts, two: CubeServers, three: CubeServers
) -> None:
    three.load(2)
    three.switch(2)
    source.listed = (layout_of(three, 2),)
    assert served.refresh()
    assert (epoch_of(served), served.model_version().version) == (2, 2)
    source.listed = (layout_of(two, 1),)  # given up
    assert served.refresh()
    assert epoch_of(served) == 1


def test_a_predictor_that_starts_takes_the_newest_layout_that_serves(
    known: Known, source: ChangingLayouts, two: CubeServers, three: CubeServers
) -> None:
    source.listed = (layout_of(two, 1), layout_of(three, 2))
    first = ServedModel("ctr", known.store, cube=CubeLayouts(source, connect), interval=3600)
    assert first.refresh()
    three.load(3)
    three.switch(3)
    second = ServedModel("ctr", known.store, cube=CubeLayouts(source, connect), interval=3600)
    assert second.refresh()
    assert (epoch_of(first), epoch_of(second)) == (1, 2)


def test_replicas_come_and_go_within_a_layout(
    known: Known, served: ServedModel, source: ChangingLayouts, two: CubeServers
) -> None:
    with CubeServers(known.store, shards=2) as more, Predictor({"ctr": served}) as predictor:
        more.load(3)
        more.switch(3)
        source.listed = (layout_of(two, 1, more),)
        assert not served.refresh(), "the same layout and version"
        while not all(server.counts()["gets"] for server in more.servers):
            ask(predictor, known.rows)
        source.listed = (layout_of(more, 1),)
        served.refresh()
        eventually(lambda: readers(two) == 0, what="no reader left at the replicas that went")
        assert_close(ask(predictor, known.rows).probability, known.expected[3])


def test_layouts_that_cannot_be_learned_change_nothing(
    known: Known, served: ServedModel, source: ChangingLayouts
) -> None:
    source.listed = ()
    assert not served.refresh()
    with Predictor({"ctr": served}) as predictor:
        assert ask(predictor, known.rows).version == 3
    waiting = ServedModel("ctr", known.store, cube=CubeLayouts(ChangingLayouts(), connect), interval=3600)
    assert not waiting.refresh()
    assert "nobody knows" in str(waiting.status()["failure"])


def test_another_number_of_shards_under_the_same_epoch_is_not_taken_for_the_same_layout(
    known: Known, served: ServedModel, source: ChangingLayouts, three: CubeServers
) -> None:
    three.load(3)
    three.switch(3)
    source.listed = (layout_of(three, 1),)
    assert not served.refresh()
    with Predictor({"ctr": served}) as predictor:
        assert_close(ask(predictor, known.rows).probability, known.expected[3])
