"""A store, and a cube server with its agent inside this process, which is enough for what they say and do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cubes.local_shard import OneShard
from support.versions.version_stores import VersionStore


@pytest.fixture
def store(tmp_path: Path) -> VersionStore:
    return VersionStore(tmp_path / "store")


@pytest.fixture
def shard(tmp_path: Path, store: VersionStore) -> Iterator[OneShard]:
    one = OneShard(tmp_path, store)
    yield one
    one.close()
