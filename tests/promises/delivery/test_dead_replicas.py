"""A dead replica stops no delivery, and serves nothing old when it comes back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from clickline.cube.cube_client import Cube
from support.cubes.cube_processes import NAME, TOKEN, CubeProcesses, Reader
from support.eventually import eventually
from support.versions.version_stores import keys_from

pytestmark = pytest.mark.heavy


@pytest.mark.parametrize("name", ["0_0", "1_1"])
@pytest.mark.parametrize("missed", [1, 5])  # fewer than a server keeps, and more
def test_a_dead_replica_is_gone_without_and_catches_up_before_it_serves(
    cube: CubeProcesses, name: str, missed: int, record_property: Callable[[str, object], None]
) -> None:
    shard, copy = map(int, name.split("_"))
    store = cube.store
    cube.await_all(store.base(keys_from(1, 280)))
    counts: Counter[str] = Counter(deaths=1, refused=0, old=0)
    reader = Reader(cube.connect(timeout=5.0), store)
    reader.start()
    cube.kill(f"cube.{name}")
    for number in range(missed):
        version = store.delta(keys_from(1, 40), keys_from(100 + number, 105 + number))
        cube.await_version(version)
        assert cube.get("/dict/info")["current_version_info"][0]["behind"] == [name]
        counts["delivered"] += 1
    cube.start(f"cube.{name}", ready=False)
    with Cube.connect([[cube.servers[shard][copy]]], name=NAME, token=TOKEN.encode(), retries=0) as alone:

        def caught_up() -> bool:
            found = alone.get("embedding", keys_from(1, 2))  # what is current there: nobody else is asked
            counts["refused" if found.code else "old" if found.version != version else "served"] += 1
            return counts["served"] > 0

        eventually(caught_up, what=f"{name} serves version {version}")
    cube.await_all(version)
    said = reader.stop()
    assert counts["old"] == 0
    record_property("dead replicas", dict(counts + reader.counts))
    print(f"\n{name} missed {missed}: {dict(counts)}; {said}")
