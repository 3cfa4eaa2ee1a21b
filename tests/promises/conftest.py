"""One cube of two shards with two replicas each for all tests here that leave it as they found it: whole."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cube_processes import CubeProcesses
from version_stores import VersionStore, keys_from


@pytest.fixture(scope="package")
def cube(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CubeProcesses]:
    directory = tmp_path_factory.mktemp("promises")
    store = VersionStore(directory / "store")
    found = CubeProcesses(directory / "processes", store, shards=2, copies=2, wait=0.3)
    try:
        store.base(keys_from(1, 300))
        found.start_all()
        found.await_all(1)
        yield found
    finally:
        found.close()
