"""Servers and agents of several layouts, inside this process, with real sockets, and the file that lists them."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from clickline.cube.agent.agent import AgentOptions
from clickline.cube.agent.agent_process import AgentProcess
from clickline.cube.cube_client import Cube
from clickline.cube.layouts.layout import Layout, Replica
from clickline.cube.layouts.layouts_file import write_layouts
from clickline.cube.server.cube_process import CubeOptions, CubeProcess
from support.versions.version_stores import VersionStore, keys_from, rows_of

NAME = "d"
TOKEN = b"a token of these members"
Place = tuple[int, int, int]
"""Epoch, shard, replica."""


class LayoutServers:
    """A context manager. What is listed is what `publish` was told."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.file = directory / "layouts.json"
        self.cubes: dict[Place, CubeProcess] = {}
        self.agents: dict[Place, AgentProcess] = {}
        self._sockets = Path(tempfile.mkdtemp(prefix="clk-"))
        self._shards: dict[int, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in [*self.agents.values(), *self.cubes.values()]:
            process.close()
        shutil.rmtree(self._sockets)

    def start(self, epoch: int, *, shards: int, replica: int = 0) -> None:
        """One replica of each shard of a layout."""
        self._shards[epoch] = shards
        for shard in range(shards):
            self.start_one((epoch, shard, replica))

    def start_one(self, place: Place) -> None:
        epoch, shard, _ = place
        directory = self.directory / "_".join(map(str, place))
        address = self._address(place)
        options = CubeOptions(
            name=NAME, directory=directory, token=TOKEN, address=address, shard=shard, shards=self._shards[epoch]
        )
        self.cubes[place] = CubeProcess(options)
        if place not in self.agents:
            self.agents[place] = AgentProcess(AgentOptions(deploy=directory, token=TOKEN, cube=address))

    def stop_server(self, place: Place) -> None:
        """The server alone: its agent says that it is gone."""
        self.cubes.pop(place).close()

    def publish(self, *epochs: int) -> None:
        """List all members of these layouts, be their servers there or not."""
        write_layouts(self.file, [self.layout(epoch) for epoch in epochs])

    def layout(self, epoch: int) -> Layout:
        shards: list[list[Replica]] = [[] for _ in range(self._shards[epoch])]
        for place, agent in self.agents.items():
            if place[0] == epoch:
                shards[place[1]].append(Replica(agent.web.address, self._address(place)))
        return Layout(epoch, tuple(map(tuple, shards)))

    def served(self, epoch: int) -> set[int]:
        """What the servers of a layout serve; 0: nothing."""
        return {cube.versions.view.version for place, cube in self.cubes.items() if place[0] == epoch}

    def check_rows(self, epoch: int, version: int, store: VersionStore) -> None:
        """Every key of a version is on the shard where readers look for it, with the right row."""
        expected = store.expected[version]["embedding"]
        keys = keys_from(1, 400)
        with Cube.connect(self.layout(epoch).servers, name=NAME, token=TOKEN) as client:
            found = client.get("embedding", keys, version=version)
        there = np.array([key in expected for key in keys.tolist()])
        wrote = np.array([expected.get(key, 0) for key in keys.tolist()])
        assert (found.version, found.code) == (version, 0)
        assert np.array_equal(found.status == 0, there)
        assert np.array_equal(found.decoded()[there], rows_of(keys, wrote)[there])

    def _address(self, place: Place) -> str:
        return f"unix:{self._sockets}/{'.'.join(map(str, place))}"
