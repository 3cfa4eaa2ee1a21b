"""Rows from a cube: the version in service there is served, a dead shard is a matter of policy, nothing is mixed."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from clickline.data.schema import Schema
from clickline.launch.local_cube import LocalCube
from clickline.net.request_errors import RequestError
from clickline.serve.predictor.configured_predictor import configured_predictor
from clickline.serve.predictor.cube_layouts import CubeLayouts
from clickline.serve.predictor.model_version import ModelVersion
from clickline.serve.predictor.predictor import Predictor
from clickline.serve.predictor.served_model import ServedModel
from clickline.serve.serve_settings import ServeConfig
from clickline.versions.store import Store
from support.cubes.cube_servers import CubeServers
from support.eventually import eventually
from support.programs.unpinned_predictor import UnpinnedCube, from_cube_unpinned
from support.serving.raw_rows import Recorded, ask, assert_close, question
from support.versions.known_versions import Known


@pytest.fixture
def cube(known: Known) -> Iterator[CubeServers]:
    with CubeServers(known.store) as servers:
        servers.load(1, 2, 3)
        servers.switch(3)
        yield servers


def served_from(cube: CubeServers, store: Store, *, refresh: bool = True, **options: Any) -> ServedModel:
    found = ServedModel("ctr", store, cube=CubeLayouts.single(cube.client()), **{"interval": 3600, **options})
    if refresh:
        assert found.refresh(), found.status()
    return found


def test_predictions_equal_the_trainers(known: Known, cube: CubeServers) -> None:
    with Predictor({"ctr": served_from(cube, known.store)}) as predictor:
        answer = ask(predictor, known.rows)
        assert answer.version == 3
        assert_close(answer.probability, known.expected[3])
        assert predictor.status()["models"]["ctr"]["rows"] == "cube"


def test_the_version_in_service_on_the_cube_counts_not_that_of_the_store(known: Known, cube: CubeServers) -> None:
    served = served_from(cube, known.store)
    with Predictor({"ctr": served}) as predictor:
        known.switch(1)
        assert not served.refresh()
        cube.switch(2)  # back
        assert served.refresh()
        answer = ask(predictor, known.rows)
        assert answer.version == 2
        assert_close(answer.probability, known.expected[2])
        cube.switch(3)
        assert served.refresh()
        assert ask(predictor, known.rows).version == 3


def test_no_answer_mixes_versions_while_the_cube_switches_and_drops(known: Known, cube: CubeServers) -> None:
    stop, wrong, failed, seen = threading.Event(), [], [], Counter[int]()

    def client(seed: int) -> None:
        number = seed
        while not stop.is_set():
            number += 1
            first = number % 30
            try:
                answer = ask(predictor, known.rows[first : first + 1 + number % 9])
            except RequestError as error:
                failed.append(str(error))
                continue
            wanted = known.expected[answer.version][first : first + len(answer.probability)]
            if np.abs(answer.probability - wanted).max() > 1e-5:
                wrong.append((answer.version, first))
            seen[answer.version] += 1

    with Predictor({"ctr": served_from(cube, known.store, interval=0.01)}) as predictor:
        clients = [threading.Thread(target=client, args=(seed,)) for seed in range(3)]
        for one in clients:
            one.start()
        try:
            for turn in range(12):
                version = 1 + turn % 3
                if version not in cube.servers[0].versions():
                    cube.load(version)
                cube.switch(version, drop=(1 + (turn - 1) % 3,) if turn > 1 else ())
                eventually(lambda version=version: predictor.models["ctr"].model_version().version == version)
                count = seen.total()
                eventually(lambda count=count: seen.total() > count + 3)
        finally:
            stop.set()
            for one in clients:
                one.join()
    assert not wrong
    assert not failed
    assert set(seen) == {1, 2, 3}


def test_a_version_that_the_cube_has_dropped_gives_way_to_the_current_one(known: Known, cube: CubeServers) -> None:
    served = served_from(cube, known.store)
    with Predictor({"ctr": served}) as predictor:
        chosen = predictor.choose()
        pinned = predictor.choose(version=3)
        cube.switch(1, drop=(3,))
        answer = predictor.ask(chosen, question(chosen.model_version, known.rows), timeout=30)
        assert answer.version == 1  # whole, by the version that is there
        assert_close(answer.probability, known.expected[1])
        with pytest.raises(RequestError, match="version 3 is no longer on the cube") as caught:
            predictor.ask(pinned, question(pinned.model_version, known.rows), timeout=30)
        assert caught.value.reason == "unknown_version"


def test_a_request_is_read_again_if_the_other_version_has_other_features(
    known: Known, cube: CubeServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Schema, "same_features", lambda self, other: False)
    with Predictor({"ctr": served_from(cube, known.store)}) as predictor:
        chosen = [predictor.choose(), predictor.choose()]
        asked = question(chosen[0].model_version, known.rows[:2])  # of other rows, to see which were predicted
        cube.switch(1, drop=(3,))
        answer = predictor.ask(
            chosen[0],
            asked,
            timeout=30,
            again=lambda reader: reader.from_json(json.dumps({"instances": known.rows}).encode(), most_rows=99),
        )
        assert answer.version == 1
        assert_close(answer.probability, known.expected[1])
        with pytest.raises(RequestError, match="version 1 has other features; ask again") as caught:
            predictor.ask(chosen[1], asked, timeout=30)
        assert caught.value.reason == "not_ready"


def test_without_pinning_answers_are_mixed(known: Known, cube: CubeServers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ModelVersion, "from_cube", from_cube_unpinned)
    served = served_from(cube, known.store)
    reads = UnpinnedCube.reads
    with Predictor({"ctr": served}) as predictor:
        assert_close(ask(predictor, known.rows).probability, known.expected[3])
        cube.switch(1)
        ask(predictor, known.rows)  # brings the news to the client
        answer = ask(predictor, known.rows)
        assert answer.version == 3
        assert np.abs(answer.probability - known.expected[3]).max() > 1e-3  # rows of 1 in the network of 3
        assert UnpinnedCube.reads > reads  # rows were read without a version


@pytest.mark.parametrize("failure", ["error", "zeros"])
def test_a_dead_shard_is_an_error_or_zeros_as_configured(known: Known, cube: CubeServers, failure: str) -> None:
    counts = Recorded()
    served = served_from(cube, known.store, failure=failure, counts=counts)
    with Predictor({"ctr": served}, counts=counts) as predictor:
        assert_close(ask(predictor, known.rows).probability, known.expected[3])
        cube.servers[1].close()
        if failure == "error":
            with pytest.raises(RequestError, match=r"rows of table \w+ cannot be read: shard 1") as caught:
                ask(predictor, known.rows)
            assert (caught.value.reason, caught.value.status) == ("rows_unavailable", 503)
            assert caught.value.retry_after is not None
        else:
            answer = ask(predictor, known.rows)
            assert np.isfinite(answer.probability).all()
            assert np.abs(answer.probability - known.expected[3]).max() > 1e-4
        assert counts.counted["clickline_rows_unavailable_total", ""] > 0


def test_zeros_are_not_good_enough_for_the_check_of_a_version(known: Known, cube: CubeServers) -> None:
    served = served_from(cube, known.store, refresh=False, failure="zeros")
    cube.servers[1].close()
    assert not served.refresh()
    assert "cannot be read" in served.status()["failure"]["error"]


def test_a_cube_that_cannot_be_reached_is_reported(known: Known, cube: CubeServers) -> None:
    served = served_from(cube, known.store, refresh=False)
    for server in cube.servers:
        server.close()
    assert not served.refresh()
    assert "no server of the cube can be reached" in served.status()["failure"]["error"]


def test_a_cube_with_other_rows_than_the_store_is_refused(known: Known, cube: CubeServers) -> None:
    from clickline import _native
    from clickline.versions.chain import opened

    with opened(known.store, 3) as chain:
        swapped = dict(zip(chain.layers, reversed(chain.layers.values()), strict=True))
        for server in cube.servers:
            server.replace(3, {name: _native.Layers(layers) for name, layers in swapped.items()})
    served = served_from(cube, known.store, refresh=False)
    assert not served.refresh()
    assert "is it the cube of this store?" in served.status()["failure"]["error"]


@pytest.mark.heavy
def test_a_cube_of_processes_from_store_to_answer_and_back(known: Known, tmp_path: Any) -> None:
    with LocalCube(tmp_path / "cube", store=known.store.url, shards=2, interval=0.1, wait=1.0) as cube:
        cube.wait_for(3)
        source = {"servers": cube.servers, "name": cube.name, "timeout": 5.0, "hedge": 0.0}
        config = ServeConfig.model_validate(
            {"models": {"ctr": {"store": known.store.url, "cube": source, "interval": 0.05}}}
        )
        with configured_predictor(config, token=cube.token.encode()) as predictor:
            eventually(predictor.ready)
            assert_close(ask(predictor, known.rows).probability, known.expected[3])
            known.switch(2)
            cube.wait_for(2)
            eventually(lambda: predictor.models["ctr"].model_version().version == 2)
            answer = ask(predictor, known.rows)
            assert answer.version == 2
            assert_close(answer.probability, known.expected[2])
