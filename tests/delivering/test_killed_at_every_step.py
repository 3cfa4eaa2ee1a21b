"""kill -9 of transfer, agent and cube server at every step of a delivery: the old version keeps serving, the delivery
completes after a restart, and no reader ever sees anything half done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from clickline import failpoints
from cube_processes import CubeProcesses, Reader, eventually, two_by_two
from version_stores import keys_from

pytestmark = pytest.mark.heavy
POINTS = [(name, ("delta", "base")[n % 2]) for n, name in enumerate(failpoints.DELIVERING)]
"""Bases and deltas take the same steps, so each step is tried with one of them."""
WHO = {"builder": "transfer", "transfer": "transfer", "agent": "agent.0_0", "cube": "cube.0_0"}
UNSWITCHED = failpoints.DELIVERING[: failpoints.DELIVERING.index("transfer.numbered")]
"""Where transfer dies before any server was told to switch."""


@pytest.fixture(scope="module")
def cube(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CubeProcesses]:
    with two_by_two(tmp_path_factory.mktemp("killed"), wait=0.2) as found:
        yield found


@pytest.mark.parametrize(("point", "kind"), POINTS)
def test_killed_at(cube: CubeProcesses, point: str, kind: str, record_property: Callable[[str, object], None]) -> None:
    store = cube.store
    old = store.last
    who = WHO[point.partition(".")[0]]
    if point == "cube.compacted":
        kind = "delta"  # a base alone has nothing to be merged
    reader = Reader(cube.connect(timeout=5.0), store)
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
    during = _read_while_dead(reader)
    assert min(during) >= old
    assert set(during) == {old} or who != "transfer" or point not in UNSWITCHED
    cube.start(who)
    cube.await_all(version)
    eventually(lambda: reader.versions[version], what=f"version {version} read")
    said = reader.stop()
    counts = {**reader.counts, "points": 1, "completed": 1, "while_dead": sum(during.values())}
    record_property("failure points", counts)
    print(f"{kind} {point}: {said}")


def _read_while_dead(reader: Reader) -> Counter[int]:
    """Batches by version, all of them read without whoever was killed."""
    before = Counter(reader.versions)
    eventually(lambda: reader.versions.total() >= before.total() + 20, what="reading goes on")
    return Counter(reader.versions) - before
