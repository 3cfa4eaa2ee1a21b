"""Going back to the version before: no download, and how long it takes."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from support.cubes.cube_processes import CubeProcesses, Reader
from support.eventually import eventually
from support.versions.version_stores import keys_from

pytestmark = pytest.mark.heavy


def downloads(cube: CubeProcesses) -> int:
    """That agents have made since they were started."""
    return sum(log.read_text().count(" download of version ") for log in cube.directory.glob("agent.*.log"))


def files(cube: CubeProcesses) -> set[tuple[str, int]]:
    return {(str(path), path.stat().st_ino) for path in cube.directory.glob("deploy.*/data/**/*.tar")}


@pytest.mark.parametrize("kind", ["base", "delta"])
def test_a_rollback_downloads_nothing(
    cube: CubeProcesses, kind: str, record_property: Callable[[str, object], None]
) -> None:
    store = cube.store
    before = store.base(keys_from(1, 300))
    cube.await_all(before)
    version = store.base(keys_from(1, 200)) if kind == "base" else store.delta(keys_from(1, 90), keys_from(100, 120))
    cube.await_all(version)
    reader = Reader(cube.connect(timeout=5.0), store)
    reader.start()
    eventually(lambda: reader.versions[version], what=f"version {version} read")
    made, there = downloads(cube), files(cube)
    assert made > 0
    began = time.monotonic()
    answer = cube.post("/rollback", {})
    seconds = time.monotonic() - began
    assert (answer["success"], answer["data"]["version"], answer["data"]["behind"]) == ("0", before, [])
    assert answer["data"]["finished"]
    with cube.connect() as client:
        assert client.get("embedding", keys_from(1, 5)).version == before
    assert downloads(cube) == made
    assert files(cube) <= there
    eventually(lambda: reader.versions[before], what=f"version {before} read by who read {version}")
    said = reader.stop()
    cube.await_all(store.base(keys_from(1, 300)))
    record_property("rollback", {"rollbacks": 1, "downloads": 0, "seconds": seconds, **reader.counts})
    print(f"\nback from a {kind} on all servers: {seconds:.3f} s; {said}")
