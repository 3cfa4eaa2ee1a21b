"""HTTP of an agent: `POST /agent/command`, `GET /agent/server`, and the routes that are given to it.

Bodies and replies are the structs of `cube.agent_messages`. Commands need the token.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from clickline.cube.agent.agent import Agent
from clickline.cube.agent.deployed_file import InvalidCommandError
from clickline.cube.agent_messages import COMMAND_PATH, SERVER_PATH, AgentReply, AgentReplyCode, AnyAgentCommand
from clickline.errors import ClicklineError
from clickline.files.typed_json import convert_json
from clickline.net.tokens import BearerToken
from clickline.net.web_server import json_object, unauthorised

AgentRoutes = Callable[[Agent, BearerToken], Sequence[BaseRoute]]
"""Makes further routes of an agent, such as Cube's own (`compat.cube.http.agent_routes`)."""


def agent_app(agent: Agent, *, guard: BearerToken, routes: AgentRoutes | None = None) -> Starlette:
    """The application."""

    async def command(request: Request) -> Response:
        # Before the body is read: without the token a client cannot make the agent hold bodies in memory.
        if not guard.admits(request.headers.get("authorization", "")):
            return unauthorised()
        try:
            message: AnyAgentCommand = convert_json(await json_object(request, trusted=True), AnyAgentCommand)
        except ValueError as error:
            return _answer(AgentReply(code=AgentReplyCode.INVALID, message=str(error)), status=400)
        # The thread finishes the command even if the connection ends; transfer asks again and is told busy or done.
        return _answer(await run_in_threadpool(agent.run, message))

    def server(request: Request) -> Response:
        try:
            status = agent.server_status(request.query_params.get("name", ""))
        except InvalidCommandError as error:
            return _answer(AgentReply(code=AgentReplyCode.INVALID, message=str(error)), status=400)
        except ClicklineError as error:
            return _answer(AgentReply(code=AgentReplyCode.FAILED, message=str(error)))
        return _answer(AgentReply(code=AgentReplyCode.DONE, server=status))

    further = routes(agent, guard) if routes is not None else ()
    return Starlette(
        routes=[Route(COMMAND_PATH, command, methods=["POST"]), Route(SERVER_PATH, server), *further],
    )


def _answer(reply: AgentReply, *, status: int = 200) -> Response:
    return Response(msgspec.json.encode(reply), status_code=status, media_type="application/json")
