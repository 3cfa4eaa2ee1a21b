"""The checks that find nothing elsewhere find what is there: mixed batches, wrong rows, wrong names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from clickline import _native
from clickline.cube.cube_client import Cube
from support.cubes.cube_readers import Known, judge
from support.cubes.unpinned_client import Unpinned
from support.versions.version_stores import VersionStore, keys_from, rows_of

TOKEN = b"a token of these tests"
KEYS = keys_from(1, 60)


@pytest.fixture
def store(tmp_path: Path) -> VersionStore:
    """A base with keys 1 to 49, and a delta that writes 1 to 19 and deletes 40 to 44."""
    made = VersionStore(tmp_path / "store")
    made.base(keys_from(1, 50))
    made.delta(keys_from(1, 20), keys_from(40, 45))
    return made


def batch(known: Known, version: int, keys: np.ndarray = KEYS) -> tuple[np.ndarray, np.ndarray]:
    """Status and rows as a version has them."""
    wrote = known.writers_of(version, keys)
    rows = np.where(wrote[:, None] > 0, rows_of(keys, wrote), np.float32(0))
    return (wrote == 0).astype(np.uint8), rows


def test_a_batch_of_one_version_is_right(store: VersionStore) -> None:
    known = Known.of_store(store)
    for version in (1, 2):
        assert not judge(known, version, KEYS, *batch(known, version))


def test_a_batch_of_two_versions_is_mixed(store: VersionStore) -> None:
    known = Known.of_store(store)
    (old_status, old_rows), (status, rows) = batch(known, 1), batch(known, 2)
    for first in (slice(0, 10), slice(41, 42)):  # rows that another version wrote; one that should be deleted
        status[first], rows[first] = old_status[first], old_rows[first]
        found = judge(known, 2, KEYS, status, rows)
        assert (found["mixed"], found["misnamed"]) == (1, 0)
        assert found["wrong_rows"] > 0


def test_a_batch_under_the_name_of_another_version_is_found(store: VersionStore) -> None:
    known = Known.of_store(store)
    assert judge(known, 2, KEYS, *batch(known, 1)) == {"wrong_rows": 24, "misnamed": 1, "mixed": 0}


def test_wrong_rows_are_found(store: VersionStore) -> None:
    known = Known.of_store(store)
    status, rows = batch(known, 2)
    rows[[3, 4]] = rows[[4, 3]]  # of the right version but the wrong keys
    rows[30, 2] += 1
    assert judge(known, 2, KEYS, status, rows)["wrong_rows"] == 3


@pytest.fixture
def between_switches(tmp_path: Path, store: VersionStore) -> Iterator[list[list[str]]]:
    """Servers of two shards with both versions, of which only the first has been switched to the second."""
    layers = [_native.Dictionary(str(store.path / f"v{version:010d}" / "embedding.dict")) for version in (1, 2)]
    servers = []
    for shard in range(2):
        cut = []
        for number, layer in enumerate(layers):
            path = str(tmp_path / f"{shard}_{number}.dict")
            first, last = 2048 * shard, 2048 * (shard + 1)
            _native.merge_dictionaries(path, [layer], first_bucket=first, last_bucket=last, keep_deleted=True)
            cut.append(_native.Dictionary(path))
        server = _native.CubeServer(f"unix:{tmp_path}/{shard}", name=f"cube.{shard}", job="test", token=TOKEN)
        servers.append(server)
        for version in (1, 2):
            server.load(version, {"embedding": _native.Layers(cut[:version])})
        server.switch(1, 1)
    servers[0].switch(2, 2)
    yield [[server.address] for server in servers]
    for server in servers:
        server.close()


def test_who_asks_each_shard_for_what_is_current_gets_two_versions(
    store: VersionStore, between_switches: list[list[str]]
) -> None:
    known = Known.of_store(store)
    careless = Unpinned(between_switches, name="test", token=TOKEN)
    for _ in range(2):
        found = careless.get("embedding", KEYS)
        assert judge(known, found.version, KEYS, found.status, found.decoded())["mixed"] == 1
    careless.close()
    with Cube.connect(between_switches, name="test", token=TOKEN) as cube:
        seen = []
        for _ in range(3):
            found = cube.get("embedding", KEYS)
            assert not judge(known, found.version, KEYS, found.status, found.decoded())
            seen.append(found.version)
    assert seen[-1] == 2
