"""A whole cube started by one object: it delivers, its processes come back, and nothing is left of it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest

from clickline.cube.cube_client import Cube
from clickline.launch.local_cube import LocalCube
from support.versions.version_stores import VersionStore, keys_from, rows_of

pytestmark = pytest.mark.heavy


def test_a_local_cube(tmp_path: Path, store: VersionStore) -> None:
    version = store.base(keys_from(1, 200))
    with LocalCube(tmp_path / "cube", store=store.path, shards=2, replicas=1) as cube:
        cube.wait_for(version)
        keys = keys_from(1, 200)
        with Cube.connect(cube.servers, name=cube.name, token=cube.token.encode(), timeout=5.0) as client:
            assert np.array_equal(client.get("embedding", keys).decoded(), rows_of(keys, version))
        for role in ("cube", "agent", "transfer"):
            pid = cube.pid(role, 0)
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            version = store.delta(keys_from(1, 20))
            cube.wait_for(version)
        pids = [one["pid"] for one in cube.supervisor.states()]
        sockets = Path(cube.servers[0][0].removeprefix("unix:")).parent
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    assert not sockets.exists()
