"""The HTTP services, each with something to serve and with secrets beside it that nobody may get at."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import numpy as np
from starlette.types import ASGIApp

from clickline import _native
from clickline.compat.cube.http.agent_routes import agent_routes
from clickline.compat.cube.http.server_routes import server_routes
from clickline.compat.cube.http.transfer_routes import transfer_routes
from clickline.compat.cube.product_source import DonefileSource
from clickline.cube.agent.agent import Agent, AgentOptions
from clickline.cube.agent.agent_api import agent_app
from clickline.cube.builder.builder import RowFile, VersionInput, build
from clickline.cube.builder.version_source import ChainLink
from clickline.cube.layouts.layout import Replica, single_layout
from clickline.cube.layouts.layout_source import FixedLayouts
from clickline.cube.server.cube_process import CubeOptions, CubeProcess
from clickline.cube.server.server_api import server_app
from clickline.cube.transfer.ledger import Deployment, Phase
from clickline.cube.transfer.transfer import Transfer, TransferPlan
from clickline.cube.transfer.transfer_api import TransferApi
from clickline.files.digests import file_sha256
from clickline.fileserver.file_server import FileServer
from clickline.net.tokens import BearerToken
from support.fuzz.asgi_requests import ask

TOKEN = b"a token for tests only"
NAME = "ctr"
SECRET = b"the secret beside it"
ALLOWED = {"control": {500, 503}, "files": {503}, "agent": set(), "transfer": set()}
"""Answers of the fives that are no finding: Cube's control says no with it; empty; too many uploads at once."""


class World:
    """A directory for each service, and one that belongs to nobody."""

    def __init__(self, directory: Path) -> None:
        self.outside, self.inside = directory / "outside", directory / "inside"
        self.outside.mkdir()
        self.inside.mkdir()
        (self.outside / "secret.txt").write_bytes(SECRET)
        self._before = self._seen()

    def _seen(self) -> list[tuple[Path, int]]:
        around = [*self.outside.parent.iterdir(), *self.outside.rglob("*")]
        return sorted((path, path.stat().st_size if path.is_file() else 0) for path in around)

    def check(self, body: bytes) -> None:
        assert SECRET not in body, "a file outside can be read"
        assert b"root:x:" not in body, "a file outside can be read"
        assert self._seen() == self._before, "something outside has changed"


def rows(directory: Path) -> VersionInput:
    keys = np.arange(1, 50, dtype=np.uint64)
    path = directory / "embedding.dict"
    _native.write_dictionary(str(path), keys, np.ones((49, 8), np.uint8), dtype=0, dim=0)
    return VersionInput(1, None, 1, "digest", {"embedding": [RowFile(path, path.stat().st_size, file_sha256(path))]})


@contextmanager
def services(directory: Path) -> Iterator[dict[str, Callable[[bytes], bool]]]:
    """Targets by name: each takes a request and says whether it was answered with success."""
    world = World(directory)
    inside = world.inside
    built = build(rows(inside), out=inside / "output", name=NAME, shards=1)
    tar = inside / "output" / built.source(0)
    with ExitStack() as stack:
        apps: dict[str, ASGIApp] = {}
        served = inside / "served"
        (served / "data").mkdir(parents=True)
        (served / "slot.conf").write_text("slots: 26\n", encoding="utf-8")
        (served / "data" / "feature").write_bytes(bytes(range(256)) * 16)
        (served / "away").symlink_to(world.outside)
        files = FileServer(served, token=TOKEN, upload_limit=1 << 20, upload_idle=1.0)
        stack.callback(files.close)
        apps["files"] = files

        guard = BearerToken(token=TOKEN, host="127.0.0.1", open_to_all=False)
        deploy = inside / "deploy"
        (deploy / "data" / "1").mkdir(parents=True)
        (deploy / "data" / "1" / tar.name).write_bytes(tar.read_bytes())
        options = CubeOptions(NAME, deploy, TOKEN, address=f"unix:{directory}/inside/c", http_port=None)
        cube = CubeProcess(options)
        stack.callback(cube.close)
        cube.load(1)
        cube.switch(1)
        apps["control"] = server_app(cube, guard=guard, routes=server_routes)

        agent = Agent(AgentOptions(deploy=deploy, token=TOKEN, cube=cube.native.address))
        stack.callback(agent.close)
        agent._client.close()
        agent._client = httpx.Client(transport=httpx.MockTransport(lambda request: _network(request, tar.read_bytes())))
        apps["agent"] = agent_app(agent, guard=guard, routes=agent_routes)

        plan = TransferPlan(
            name=NAME,
            layouts=FixedLayouts(single_layout([[Replica(agent="http://127.0.0.1:1", cube="tcp:127.0.0.1:1")]])),
            output=inside / "output",
            scratch=inside / "scratch",
        )
        source = DonefileSource(str(inside / "nothing"), table=NAME)
        transfer = Transfer(plan, source, token=TOKEN, url=lambda name: f"http://127.0.0.1:1/output/{name}")
        link = ChainLink(version=1, parent=None, base=1, input="x", digest="digest")
        transfer.ledger.current = Deployment(chain=[link], phase=Phase.FINISHED, number=1)
        transfer.ledger.end(transfer.ledger.current)
        builds = FileServer(inside / "output")
        stack.callback(builds.close)
        apps["transfer"] = TransferApi(transfer, guard=guard).app(files=builds, routes=transfer_routes)
        yield {name: _target(name, app, world) for name, app in apps.items()}


def _target(name: str, app: ASGIApp, world: World) -> Callable[[bytes], bool]:
    def target(request: bytes) -> bool:
        answer = ask(app, request)
        if answer is None:
            return False
        assert answer.status < 500 or answer.status in ALLOWED[name], (answer.status, bytes(answer.body[:500]))
        world.check(bytes(answer.body))
        return answer.status < 300

    return target


def _network(request: httpx.Request, tar: bytes) -> httpx.Response:
    """All that an agent can reach: one good file, and a liar."""
    if request.url.path.endswith(".md5"):
        return httpx.Response(200, content=hashlib.md5(tar, usedforsecurity=False).hexdigest().encode())
    if request.url.path.endswith("build.json"):
        return httpx.Response(200, content=b'{"files": {"liar.tar": {"sha256": "\\ud800"}}}')
    content = tar if request.url.path.endswith(".tar") else b"no tar"
    return httpx.Response(200, stream=httpx.ByteStream(content))
