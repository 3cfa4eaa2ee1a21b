"""HTTP of a cube server, with the older paths, for who has no client of the wire.

    POST /DictService/seek     {"keys": […], "version_required": true} → values as base64, and the version they are of
    POST /ControlService/cmd   {"cmd": …}: status, bg_load_base, bg_load_patch, bg_switch, bg_unload, reload_base,
                               reload_patch, enable; 400: no JSON, 500: failed, or another command is at work
    GET  /health, /metrics

docs/reference/cube-http.md has the shapes. Reading needs no token, changing does.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, generate_latest
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from clickline.cube.server.seek import Tally, seek
from clickline.errors import ClicklineError
from clickline.net.tokens import BearerToken
from clickline.net.web_server import BODY_LIMIT, decimal, json_object, unauthorised

if TYPE_CHECKING:
    from clickline.cube.server.cube_process import CubeProcess

READ_ONLY = ("status",)
_STATUS_BODY = 1024
"""Bytes of a command without the token: enough to ask for the status."""


def gateway(process: CubeProcess, *, guard: BearerToken) -> Starlette:
    """The application."""
    control = Control(process)
    tally = Tally(process)

    async def seek_route(request: Request) -> Response:
        try:
            asked = await json_object(request, trusted=False)
            found = await run_in_threadpool(seek, process.shelf.view, asked, tally)
        except ValueError as error:
            return JSONResponse({"error": str(error)}, status_code=400)
        return JSONResponse(found)

    async def command(request: Request) -> Response:
        admitted = guard.admits(request.headers.get("authorization", ""))
        if not admitted and _announced(request) > _STATUS_BODY:
            return unauthorised()
        try:
            asked = await json_object(request, trusted=admitted, limit=BODY_LIMIT if admitted else _STATUS_BODY)
        except ValueError:
            return JSONResponse({}, status_code=400)
        if asked.get("cmd") not in READ_ONLY and not admitted:
            return unauthorised()
        status, answer = await run_in_threadpool(control.run, asked)
        return JSONResponse(answer, status_code=status)

    async def health(_: Request) -> Response:
        view = process.shelf.view
        facts = {"status": "ok" if view.version else "empty", "version": view.version, "switch": view.number}
        return JSONResponse(facts, status_code=200 if view.version else 503)

    def metrics(_: Request) -> Response:
        registry = CollectorRegistry()
        registry.register(tally)
        return Response(generate_latest(registry), media_type="text/plain; version=0.0.4")

    return Starlette(
        routes=[
            Route("/DictService/seek", seek_route, methods=["POST"]),
            Route("/ControlService/cmd", command, methods=["POST"]),
            Route("/health", health),
            Route("/metrics", metrics),
        ]
    )


class Control:
    """The older commands: one version in service and one in the background, one command at a time."""

    def __init__(self, process: CubeProcess) -> None:
        self._process = process
        self._busy = threading.Lock()
        self._loading = False
        self._background = 0

    def run(self, asked: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """HTTP status and answer."""
        name = asked.get("cmd")
        if name == "status":
            return 200, self._status()
        if not self._busy.acquire(blocking=False):
            return 500, {"error": "another command is at work"}
        try:
            self._do(str(name), asked)
        except (ClicklineError, ValueError) as error:
            return 500, {"error": str(error)}
        finally:
            self._loading = False
            self._busy.release()
        return 200, {}

    def _status(self) -> dict[str, Any]:
        view = self._process.shelf.view
        background = self._in_background()
        return {
            "cur_version": str(view.version) if view.version else "",
            "bg_version": str(background) if background else "",
            "status": 1 if self._loading else 0,
        }

    def _do(self, name: str, asked: dict[str, Any]) -> None:
        process = self._process
        if name in ("bg_load_base", "bg_load_patch", "reload_base", "reload_patch"):
            version = self._version_of(name, asked.get("version_path"))
            self._loading = True
            process.load(version)
            self._background = version
            if name.startswith("reload"):
                process.switch(version)
        elif name == "bg_switch":
            if not self._in_background():
                raise ValueError("there is no version in the background")
            process.switch(self._in_background())
        elif name == "bg_unload":
            if self._in_background():
                process.shelf.drop(self._in_background())
            self._background = 0
        elif name == "enable":
            version = _number(asked.get("version"))
            if version != process.shelf.view.version:
                if version not in process.shelf.loaded:
                    raise ValueError(f"version {version} is neither in service nor in the background")
                process.switch(version)
        else:
            raise ValueError(f"no command {name!r}")

    def _in_background(self) -> int:
        shelf = self._process.shelf
        if self._background in shelf.loaded and self._background != shelf.view.version:
            return self._background
        return max((version for version in shelf.loaded if version > shelf.view.version), default=0)

    def _version_of(self, name: str, path: Any) -> int:
        """From /<version> or /<base>_<version>; without a path the newest of the kind that lies there."""
        patch = name.endswith("patch")
        if path in (None, ""):
            shelf = self._process.shelf
            found = [one for one in shelf.disk.complete() if (shelf.disk.chain(one)[-1].parent is not None) == patch]
            if not found:
                raise ValueError(f"no {'patch' if patch else 'base'} lies here; give version_path")
            return found[-1]
        if not isinstance(path, str) or not path.startswith("/") or "/" in path[1:]:
            raise ValueError(f"version_path {path!r} must be like {'/12_14' if patch else '/12'}")
        base, underscore, version = path[1:].rpartition("_")
        if bool(underscore) != patch:
            raise ValueError(f"version_path {path!r} must be like {'/12_14' if patch else '/12'}")
        if patch:
            _number(base)
        return _number(version)


def _announced(request: Request) -> int:
    return decimal(request.headers.get("content-length", "")) or 0


def _number(text: Any) -> int:
    value = str(text) if isinstance(text, str | int) and not isinstance(text, bool) else ""
    if not value.isascii() or not value.isdigit() or len(value) > 19:
        raise ValueError(f"{text!r} is no version")
    return int(value)
