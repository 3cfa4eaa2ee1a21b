"""kill -9 of transfer, agent and cube server at every step of a delivery: the old version keeps serving, the delivery
completes after a restart, and no reader ever sees anything half done."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from cube_processes import CubeProcesses, Reader, eventually
from version_stores import VersionStore, keys_from

from clickline import failpoints

pytestmark = pytest.mark.heavy
POINTS = [(name, ("delta", "base")[n % 2]) for n, name in enumerate(failpoints.DELIVERING)]
"""Bases and deltas take the same steps, so each step is tried with one of them."""
WHO = {"builder": "transfer", "transfer": "transfer", "agent": "agent.0_0", "cube": "cube.0_0"}


@pytest.fixture(scope="module")
def cube(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CubeProcesses]:
    directory = tmp_path_factory.mktemp("killed")
    store = VersionStore(directory / "store")
    found = CubeProcesses(directory / "processes", store, shards=1, copies=2, wait=0.5)
    try:
        store.base(keys_from(1, 300))
        found.start_all()
        found.await_all(1)
        yield found
    finally:
        found.close()


@pytest.mark.parametrize(("point", "kind"), POINTS)
def test_killed_at(cube: CubeProcesses, point: str, kind: str, record_property: Callable[[str, object], None]) -> None:
    store = cube.store
    who = WHO[point.partition(".")[0]]
    if point == "cube.compacted":
        kind = "delta"  # a base alone has nothing to be merged
    reader = Reader(cube.connect(), store)
    reader.start()
    cube.restart(who, fail_at=point)
    if who != "transfer":  # some steps are taken at the start, too
        eventually(lambda: cube.ended(who) or cube.all_serve(store.last), what=f"{who} back or killed at {point}")
    if kind == "base":
        version = store.base(keys_from(1, 300))
    else:
        for _ in range(1 if point != "cube.compacted" else 8):
            version = store.delta(keys_from(1, 120), keys_from(150, 160))
            if point == "cube.compacted" and not cube.ended(who):
                cube.await_all(version)
    eventually(lambda: cube.ended(who), what=f"{who} killed at {point}")
    assert cube.running[who].returncode == -9
    cube.start(who)
    cube.await_all(version)
    record_property("counts", f"killed at {point}, {kind}, then completed: {reader.stop()}")
