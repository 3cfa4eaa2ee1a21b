"""A client without the one thing that keeps a batch together: it asks each shard for whatever is current there."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from clickline import _native
from clickline.cube.cube_client import Cube, CubeAnswer


class Unpinned:
    def __init__(self, shards: list[list[str]], *, name: str, token: bytes, **options: Any) -> None:
        self._clients = [Cube.connect([replicas], name=name, token=token, **options) for replicas in shards]

    def get(self, table: str, keys: NDArray[np.uint64]) -> CubeAnswer:
        """As a Cube's. The version is that of the last shard: it does not know better."""
        shards = len(self._clients)
        owners = np.array([_native.bucket_of(int(key)) * shards // 4096 for key in keys])
        status, rows, found = np.ones(len(keys), np.uint8), None, None
        for shard, client in enumerate(self._clients):
            mine = owners == shard
            found = client.get(table, keys[mine])
            if found.code:
                return found
            rows = np.zeros((len(keys), found.values.shape[1]), np.uint8) if rows is None else rows
            status[mine], rows[mine] = found.status, found.values
        assert found is not None
        return CubeAnswer(found.version, 0, status, rows, None, found.dtype, found.dim, [])

    def close(self) -> None:
        for client in self._clients:
            client.close()
