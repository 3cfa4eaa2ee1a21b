"""Cube's HTTP of a cube server, for programs without a client of the wire.

    POST /DictService/seek     {"keys": […], "version_required": true} → values as base64, and the version they are of
    POST /ControlService/cmd   {"cmd": …}: status, bg_load_base, bg_load_patch, bg_switch, bg_unload, reload_base,
                               reload_patch, enable; 400: not JSON, 500: failed, or another command is at work

Reading needs no token, changing does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from clickline.compat.cube.http.seek import seek
from clickline.compat.cube.http.server_control import STATUS, CubeControl
from clickline.net.tokens import BearerToken
from clickline.net.web_server import BODY_LIMIT, decimal, json_object, unauthorised

if TYPE_CHECKING:
    from clickline.cube.server.cube_process import CubeProcess

_STATUS_BODY = 1024
"""Bytes of a command without the token: enough to ask for the status."""


def server_routes(process: CubeProcess, guard: BearerToken) -> list[BaseRoute]:
    """Routes for `CubeProcess`."""
    control = CubeControl(process)

    async def seek_route(request: Request) -> Response:
        try:
            asked = await json_object(request, trusted=False)
            # The view is taken once, so all keys are answered from one version even if a switch comes in between.
            answer = await run_in_threadpool(seek, process.versions.view, asked, process.http_reads)
        except ValueError as error:
            return JSONResponse({"error": str(error)}, status_code=400)
        return JSONResponse(answer)

    async def command(request: Request) -> Response:
        admitted = guard.admits(request.headers.get("authorization", ""))
        # Only `status` works without the token, and it is short: a longer body is refused before it is read.
        if not admitted and _announced(request) > _STATUS_BODY:
            return unauthorised()
        try:
            asked = await json_object(request, trusted=admitted, limit=BODY_LIMIT if admitted else _STATUS_BODY)
        except ValueError:
            return JSONResponse({}, status_code=400)
        if asked.get("cmd") != STATUS and not admitted:
            return unauthorised()
        status, answer = await run_in_threadpool(control.run, asked)
        return JSONResponse(answer, status_code=status)

    return [
        Route("/DictService/seek", seek_route, methods=["POST"]),
        Route("/ControlService/cmd", command, methods=["POST"]),
    ]


def _announced(request: Request) -> int:
    return decimal(request.headers.get("content-length", "")) or 0
