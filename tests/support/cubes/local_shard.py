"""One cube server, its agent and a file server with builds, in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import numpy as np

from clickline.compat.cube.http.agent_routes import agent_routes
from clickline.compat.cube.http.server_routes import server_routes
from clickline.cube.agent.agent import AgentOptions
from clickline.cube.agent.agent_process import AgentProcess
from clickline.cube.builder.build_record import Build
from clickline.cube.builder.builder import build
from clickline.cube.builder.version_source import PublishedSource
from clickline.cube.cube_client import Cube
from clickline.cube.server.cube_process import CubeOptions, CubeProcess
from clickline.fileserver.file_server import FileServer
from clickline.versions.store import open_store
from support.versions.version_stores import VersionStore, keys_from, rows_of

TOKEN = b"a token of these tests"
NAME = "test_dict"


class OneShard:
    def __init__(
        self,
        directory: Path,
        store: VersionStore,
        *,
        keep: int = 3,
        memory: bool = False,
        deploy: Path | None = None,
    ) -> None:
        self.directory, self.store = directory, store
        self.deploy, self.builds = deploy or directory / "deploy", directory / "builds"
        self.builds.mkdir()
        self._options: dict[str, Any] = {"keep": keep, "memory": memory}
        self.files = FileServer(self.builds)
        self.files.__enter__()
        self.cube = self._cube()
        options = AgentOptions(deploy=self.deploy, token=TOKEN, cube=self.cube.native.address)
        self.agent = AgentProcess(options, routes=agent_routes)
        self.http = httpx.Client(trust_env=False, headers={"Authorization": f"Bearer {TOKEN.decode()}"}, timeout=20)

    def _cube(self) -> CubeProcess:
        address = f"unix:{self.directory}/c.sock"
        options = CubeOptions(name=NAME, directory=self.deploy, token=TOKEN, address=address, **self._options)
        return CubeProcess(options, routes=server_routes)

    def restart_cube(self) -> None:
        self.cube.close()
        self.cube = self._cube()

    def close(self) -> None:
        self.http.close()
        self.agent.close()
        self.cube.close()
        self.files.close()

    def build(self, version: int) -> Build:
        source = PublishedSource(open_store(self.store.path))
        (step,) = source.chain(version)[-1:]
        return build(source.rows(step, scratch=self.directory), out=self.builds, name=NAME, shards=1)

    def body(self, command: str, version: int, **more: Any) -> dict[str, Any]:
        """Literally as Cube's transfer sends it."""
        found = self.build(version)
        base = found.record.base
        return {
            "command": command,
            "dict_name": NAME,
            "deploy_path": str(self.deploy),
            "version": str(version),
            "depend": str(base),
            "id": str(version),
            "key": str(base),
            "mode": found.record.kind,
            "shard_seq": 0,
            "source": f"{self.files.address}/{found.source(0)}",
            "port": "8027",
            **more,
        }

    def command(self, command: str, version: int, **more: Any) -> dict[str, Any]:
        url = f"{self.agent.web.address}/agent/cmd"
        answer: dict[str, Any] = self.http.post(url, json=self.body(command, version, **more)).json()
        return answer

    def deliver(self, version: int) -> None:
        for command in ("download", "reload", "enable"):
            assert self.command(command, version) == {"success": "0", "message": "query ok", "data": ""}

    def control(self, **asked: Any) -> httpx.Response:
        return self.http.post(f"{self.cube.web.address}/ControlService/cmd", json=asked)

    def client(self) -> Cube:
        return Cube.connect([[self.cube.native.address]], name=NAME, token=TOKEN)


def read(shard: OneShard, version: int) -> None:
    """Every key of a version, and some that it has not, are as they should be."""
    expected = shard.store.expected[version]["embedding"]
    keys = keys_from(1, 400)
    with shard.client() as client:
        found = client.get("embedding", keys, version=version)
    assert (found.version, found.code) == (version, 0)
    rows = found.decoded()
    for index, key in enumerate(keys.tolist()):
        if key in expected:
            assert found.status[index] == 0
            assert np.array_equal(rows[index], rows_of(keys[index : index + 1], expected[key])[0])
        else:
            assert found.status[index] == 1
