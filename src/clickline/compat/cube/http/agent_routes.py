"""Cube's HTTP of an agent: its status, and its commands in Cube's words.

    GET  /agent/status         {"status": "RUNNING", "version": …}
    POST /agent/cmd            {"command": "download" | "reload" | "enable" | "rollback" | "check" | "pop" | "clear", …}
    GET  /agent/cube           the server's status, in Cube's envelope

Numbers may be strings, as Cube sends them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from clickline.cube.agent.agent import Agent
from clickline.cube.agent.deployed_file import InvalidCommandError
from clickline.cube.agent_messages import (
    AgentReply,
    AgentReplyCode,
    AnyAgentCommand,
    CheckCommand,
    DownloadCommand,
    DropCommand,
    LoadCommand,
    RemoveCommand,
    RollBackCommand,
    SwitchCommand,
)
from clickline.errors import ClicklineError
from clickline.net.tokens import BearerToken
from clickline.net.web_server import FAILED, OK, envelope, json_object, unauthorised, wrong_path

VERSION = "3.0.0.1"
"""Version of the interface: what Cube's agent reports."""
API = ["/agent/status", "/agent/cmd"]
INVALID = "Work is invalid"
BUSY = "Another work with same key is doing."


def agent_routes(agent: Agent, guard: BearerToken) -> list[BaseRoute]:
    """Routes for `AgentProcess`. The last one answers every path that is not known, so they come last."""

    async def status(_: Request) -> Response:
        return JSONResponse({"status": "RUNNING", "version": VERSION})

    async def command(request: Request) -> Response:
        if not guard.admits(request.headers.get("authorization", "")):
            return unauthorised()
        try:
            asked = await json_object(request, trusted=True)
        except ValueError as error:
            return envelope(FAILED, str(error), status=400)
        return envelope(*await run_in_threadpool(run_cube_command, agent, asked))

    def cube(request: Request) -> Response:
        try:
            server = agent.server_status(request.query_params.get("dict_name", ""))
        except InvalidCommandError as error:
            return envelope(FAILED, f"{INVALID}: {error}")
        except ClicklineError as error:
            return envelope(FAILED, str(error))
        return envelope(OK, "query ok", msgspec.to_builtins(server))

    async def unknown(request: Request) -> Response:
        return wrong_path(request, API)

    return [
        Route("/agent/status", status),
        Route("/agent/cmd", command, methods=["POST"]),
        Route("/agent/cube", cube),
        Route("/{path:path}", unknown, methods=["GET", "POST", "PUT", "DELETE"]),
    ]


def run_cube_command(agent: Agent, asked: Mapping[str, Any]) -> tuple[str, str, Any]:
    """Execute a command of Cube's shape: code, message and data of the envelope."""
    try:
        command = parse_command(asked)
    except InvalidCommandError as error:
        return FAILED, f"{INVALID}: {error}" if str(error) else INVALID, ""
    return _envelope_of(agent.run(command))


def parse_command(asked: Mapping[str, Any]) -> AnyAgentCommand:
    """A command from Cube's JSON. Raises InvalidCommandError."""
    name = asked.get("command")
    version, base = _decimal(asked.get("version")), _decimal(asked.get("depend"))
    if not name or version is None or base is None:
        raise InvalidCommandError  # without a reason: Cube's message for these is the bare "Work is invalid"
    if not isinstance(name, str) or name not in _COMMANDS:
        raise InvalidCommandError(f"no command {name!r:.80}; known: {', '.join(_COMMANDS)}")
    dictionary, shard = asked.get("dict_name"), _decimal(asked.get("shard_seq", 0))
    if not isinstance(dictionary, str) or shard is None:
        raise InvalidCommandError(f"dict_name {dictionary!r:.80}, shard_seq {asked.get('shard_seq')!r:.80}")
    port = _decimal(asked.get("port")) or 0
    if port > 65535:
        raise InvalidCommandError(f"port {port}")
    kind, fields = _COMMANDS[name]
    return kind(
        name=dictionary,
        shard=shard,
        version=version,
        base=base,
        deploy_path=str(asked.get("deploy_path") or ""),
        server_port=port,
        **fields(asked),
    )


def _envelope_of(reply: AgentReply) -> tuple[str, str, Any]:
    match reply.code:
        case AgentReplyCode.DONE if reply.file is not None:
            checked = reply.file
            return (
                OK,
                "query ok",
                {
                    "downloaded": True,
                    "loaded": checked.loaded,
                    "enabled": checked.in_service,
                    "bytes": checked.bytes,
                    "sha256": checked.sha256,
                },
            )
        case AgentReplyCode.DONE:
            return OK, "query ok", ""
        case AgentReplyCode.BUSY:
            return FAILED, BUSY, ""
        case AgentReplyCode.INVALID:
            return FAILED, f"{INVALID}: {reply.message}", ""
        case AgentReplyCode.DAMAGED:
            return FAILED, reply.message, {"damaged": True}
        case _:
            return FAILED, reply.message, ""


def _no_fields(_: Mapping[str, Any]) -> Mapping[str, Any]:
    return {}


def _download_fields(asked: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"source": str(asked.get("source", "")), "sha256": str(asked.get("sha256", ""))}


def _switch_fields(asked: Mapping[str, Any]) -> Mapping[str, Any]:
    """Fields that Cube does not have, but our transfer of earlier releases sent: the switch, and the other servers."""
    peers = asked.get("peers")
    return {
        "number": _decimal(asked.get("number")) or 0,
        "peers": tuple(str(peer) for peer in peers) if isinstance(peers, list) else None,
    }


_COMMANDS: dict[str, tuple[Callable[..., AnyAgentCommand], Callable[[Mapping[str, Any]], Mapping[str, Any]]]] = {
    "download": (DownloadCommand, _download_fields),
    "reload": (LoadCommand, _no_fields),
    "enable": (SwitchCommand, _switch_fields),
    "check": (CheckCommand, _no_fields),
    "clear": (RemoveCommand, _no_fields),
    "pop": (DropCommand, _no_fields),
    "rollback": (RollBackCommand, _switch_fields),
}
"""Cube's commands: ours, and how its own fields are read."""


def _decimal(value: object) -> int | None:
    """A number, or one as text; None if it is neither."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    text = str(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 19 else None
