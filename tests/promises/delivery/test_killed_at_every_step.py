"""kill -9 of transfer, agent and cube server at every step of a delivery: the old version keeps serving, the delivery
completes after a restart, and no reader ever sees anything half done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from clickline.files import failpoints
from support.cubes.cube_processes import CubeProcesses, Reader, two_by_two
from support.cubes.failure_points import POINTS, WHO
from support.eventually import eventually
from support.versions.version_stores import keys_from

pytestmark = pytest.mark.heavy
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
    merging = point.startswith("cube.compact")
    if merging:
        kind = "delta"  # a base alone has nothing to be merged
    reader = Reader(cube.connect(timeout=5.0), store)
    reader.start()
    cube.kill(who)
    _leave_unfinished(cube)
    cube.start(who, fail_at=point)
    if who != "transfer":  # some steps are taken at the start, too
        eventually(lambda: cube.ended(who) or cube.all_serve(store.last), what=f"{who} back or killed at {point}")
    if kind == "base":
        version = store.base(keys_from(1, 300))
    else:
        for _ in range(8 if merging else 1):
            version = store.delta(keys_from(1, 120), keys_from(150, 160))
            if merging:
                eventually(lambda: cube.ended(who) or cube.all_serve(version), what=f"version {version} or a death")  # noqa: B023
    eventually(lambda: cube.ended(who), what=f"{who} killed at {point}")
    assert cube.running[who].returncode == -9
    during = _read_while_dead(reader)
    assert min(during) >= old
    assert set(during) == {old} or who != "transfer" or point not in UNSWITCHED
    cube.start(who)
    cube.await_all(version)
    eventually(lambda: reader.versions[version], what=f"version {version} read")
    eventually(lambda: not _unfinished(cube), what=f"what was left at {point} removed")
    said = reader.stop()
    counts = {**reader.counts, "points": 1, "completed": 1, "while_dead": sum(during.values())}
    record_property("failure points", counts)
    print(f"{kind} {point}: {said}")


def _leave_unfinished(cube: CubeProcesses) -> None:
    """What processes that were killed long ago have left: some steps are only taken if there is something to remove."""
    data, builds = cube.directory / "deploy.0_0" / "data", cube.directory / "builds"
    for path in (data / ".downloading-0", data / ".compact_0", data / "0", builds / ".building-0_0", builds / "0_0"):
        path.mkdir(exist_ok=True)
        (path / "embedding.dict").write_bytes(b"half of")


def _unfinished(cube: CubeProcesses) -> list[Path]:
    """Directories that no version in service needs, nor one that is on its way."""
    there = [*cube.directory.glob("deploy.*/data/*"), *cube.directory.glob("builds/*")]
    return [path for path in there if path.is_dir() and (path.name.startswith(".") or path.name in ("0", "0_0"))]


def _read_while_dead(reader: Reader) -> Counter[int]:
    """Batches by version, all of them read without whoever was killed."""
    before = Counter(reader.versions)
    eventually(lambda: reader.versions.total() >= before.total() + 20, what="reading goes on")
    return Counter(reader.versions) - before
