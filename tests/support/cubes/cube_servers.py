"""Cube servers inside this process, real sockets and all, with the rows of a store's versions."""

from __future__ import annotations

import tempfile
from types import TracebackType
from typing import Any, Self

from clickline import _native
from clickline.cube.cube_client import Cube
from clickline.versions import donefile
from clickline.versions.chain import opened
from clickline.versions.store import Store

TOKEN = b"a token of these servers"
NAME = "ctr"


class CubeServers:
    """One server for each shard. Each holds all rows; a client asks it for its own."""

    def __init__(self, store: Store, *, shards: int = 2) -> None:
        self._store = store
        self._sockets = tempfile.TemporaryDirectory(prefix="clk-")
        self.addresses = [[f"unix:{self._sockets.name}/{shard}"] for shard in range(shards)]
        self.servers = [
            _native.CubeServer(address, name=f"cube {shard}", job=NAME, token=TOKEN)
            for shard, (address,) in enumerate(self.addresses)
        ]
        self._switches = 0

    def load(self, *versions: int) -> None:
        for version in versions:
            with opened(self._store, version, done=donefile.read(self._store)) as chain:
                for server in self.servers:
                    server.load(version, {name: _native.Layers(layers) for name, layers in chain.layers.items()})

    def switch(self, version: int, *, drop: tuple[int, ...] = ()) -> None:
        self._switches += 1
        for server in self.servers:
            server.switch(version, self._switches)
            for one in drop:
                server.drop(one)

    def client(self, **options: Any) -> Cube:
        return Cube.connect(self.addresses, name=NAME, token=TOKEN, **{"timeout": 5.0, "retries": 0, **options})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for server in self.servers:
            server.close()
        self._sockets.cleanup()
