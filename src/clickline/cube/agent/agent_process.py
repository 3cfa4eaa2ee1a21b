"""The agent's process: HTTP around an agent.

GET  /agent/status         {"status": "RUNNING", "version": …}
POST /agent/cmd            the older commands
GET  /agent/cube           what the server says of itself
"""

from __future__ import annotations

import logging
import os
import threading
from contextlib import ExitStack

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from clickline.cube.agent.agent import INVALID, SAFE_NAME, Agent, AgentPlace
from clickline.errors import ClicklineError
from clickline.files.directory_lock import DirectoryLock
from clickline.files.json_state import write_state
from clickline.net.tokens import BearerToken
from clickline.net.web_server import FAILED, OK, WebServer, envelope, json_object, unauthorised, wrong_path
from clickline.processes.heartbeat import BEAT_EVERY, Heartbeat

log = logging.getLogger("clickline.agent")
VERSION = "3.0.0.1"
"""Of the interface: what the older agent called itself."""
API = ["/agent/status", "/agent/cmd"]


def agent_app(agent: Agent, *, guard: BearerToken) -> Starlette:
    """The agent's HTTP."""

    async def status(_: Request) -> Response:
        return JSONResponse({"status": "RUNNING", "version": VERSION})

    async def command(request: Request) -> Response:
        if not guard.admits(request.headers.get("authorization", "")):
            return unauthorised()
        try:
            asked = await json_object(request, trusted=True)
        except ValueError as error:
            return envelope(FAILED, str(error), status=400)
        return envelope(*await run_in_threadpool(agent.run, asked))

    def cube(request: Request) -> Response:
        name = request.query_params.get("dict_name", "")
        if not SAFE_NAME.fullmatch(name):
            return envelope(FAILED, f"{INVALID}: dict_name {name!r:.80}")
        try:
            return envelope(OK, "query ok", agent.cube_status(name))
        except ClicklineError as error:
            return envelope(FAILED, str(error))

    async def other(request: Request) -> Response:
        return wrong_path(request, API)

    return Starlette(
        routes=[
            Route("/agent/status", status),
            Route("/agent/cmd", command, methods=["POST"]),
            Route("/agent/cube", cube),
            Route("/{path:path}", other, methods=["GET", "POST", "PUT", "DELETE"]),
        ]
    )


class AgentProcess:
    """An agent that listens."""

    def __init__(self, place: AgentPlace) -> None:
        guard = BearerToken(token=place.token, host=place.host, open_to_all=place.open_to_all)
        with ExitStack() as opening:
            self._lock = DirectoryLock(place.deploy, "agent")
            opening.callback(self._lock.release)
            self.agent = Agent(place)
            self.web = WebServer(agent_app(self.agent, guard=guard), host=place.host, port=place.port)
            opening.pop_all()
        self.stopped = threading.Event()
        log.info("listens at %s", self.web.address)
        if place.ready is not None:
            write_state(place.ready, {"pid": os.getpid(), "http": self.web.address})

    def wait(self, heartbeat: Heartbeat) -> None:
        while not self.stopped.wait(BEAT_EVERY):
            if self.web.turned():
                heartbeat.beat()

    def close(self) -> None:
        self.web.close()
        self.agent.close()
        self._lock.release()
