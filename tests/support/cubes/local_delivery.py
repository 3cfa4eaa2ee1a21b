"""A store, transfer, one cube server and its agent inside this process, each of which can be stopped and started."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path

import numpy as np

from clickline.cube.agent.agent import AgentOptions
from clickline.cube.agent.agent_process import AgentProcess
from clickline.cube.builder.version_source import PublishedSource
from clickline.cube.cube_client import Cube
from clickline.cube.layouts.layout import Replica, single_layout
from clickline.cube.layouts.layout_source import FixedLayouts
from clickline.cube.server.cube_process import CubeOptions, CubeProcess
from clickline.cube.transfer.builds import TransferPlan
from clickline.cube.transfer.transfer_process import TransferOptions, TransferProcess
from clickline.versions.store import open_store
from support.eventually import eventually
from support.versions.version_stores import VersionStore, keys_from, rows_of

TOKEN = b"a token of these tests"
NAME = "test_dict"


class OneDelivery:
    """Everything is stopped at first, but for the cube server. A context manager."""

    def __init__(self, directory: Path, *, deploy: Path | None = None) -> None:
        self.directory, self.store = directory, VersionStore(directory / "store")
        self.deploy, self.builds = deploy or directory / "deploy", directory / "builds"
        self._agent_port = _free_port()
        self.cube: CubeProcess | None = None
        self.agent: AgentProcess | None = None
        self.process: TransferProcess | None = None
        self.start_cube()

    def __enter__(self) -> OneDelivery:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop_transfer()
        self.stop_agent()
        self.stop_cube()

    def start_cube(self) -> None:
        address = f"unix:{self.directory}/c.sock"
        self.cube = CubeProcess(CubeOptions(name=NAME, directory=self.deploy, token=TOKEN, address=address))

    def stop_cube(self) -> None:
        if self.cube is not None:
            self.cube.close()
            self.cube = None

    def start_agent(self) -> None:
        assert self.cube is not None
        options = AgentOptions(deploy=self.deploy, token=TOKEN, cube=self._address, port=self._agent_port)
        self.agent = AgentProcess(options)

    def stop_agent(self) -> None:
        if self.agent is not None:
            self.agent.close()
            self.agent = None

    def start_transfer(self) -> None:
        replica = Replica(f"http://127.0.0.1:{self._agent_port}", self._address, str(self.deploy))
        plan = TransferPlan(
            name=NAME,
            layouts=FixedLayouts(single_layout([[replica]])),
            output=self.builds,
            scratch=self.directory / "state",
            interval=0.1,
        )
        source = PublishedSource(open_store(self.store.path))
        self.process = TransferProcess(plan, source, TransferOptions(token=TOKEN))

    def stop_transfer(self) -> None:
        if self.process is not None:
            self.process.close()
            self.process = None

    def await_build(self, version: int) -> Path:
        """The tar of a version's build, once it is offered."""
        assert self.process is not None
        ledger = self.process.transfer.ledger
        eventually(lambda: ledger.rolling and ledger.rolling.version == version, what=f"a build of version {version}")
        (tar,) = self.builds.glob(f"*_{version}/*.tar")
        return tar

    def serves(self, version: int) -> bool:
        assert self.cube is not None
        return self.cube.versions.view.version == version

    def await_served(self, version: int) -> None:
        eventually(lambda: self.serves(version), what=f"version {version} in service")
        self.check_rows(version)

    def check_rows(self, version: int) -> None:
        """Every key of a version, and some that it has not, are as they should be."""
        expected = self.store.expected[version]["embedding"]
        keys = keys_from(1, 400)
        with contextlib.closing(Cube.connect([[self._address]], name=NAME, token=TOKEN)) as client:
            found = client.get("embedding", keys, version=version)
        assert (found.version, found.code) == (version, 0)
        there = np.array([key in expected for key in keys.tolist()])
        assert np.array_equal(found.status == 0, there)
        wrote = np.array([expected.get(key, 0) for key in keys.tolist()])
        assert np.array_equal(found.decoded()[there], rows_of(keys, wrote)[there])

    @property
    def _address(self) -> str:
        return f"unix:{self.directory}/c.sock"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
