"""HTTP of a cube server: `GET /health`, `GET /metrics`, and the routes that are given to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from clickline.cube.server.server_metrics import ServerMetrics
from clickline.net.tokens import BearerToken

if TYPE_CHECKING:
    from clickline.cube.server.cube_process import CubeProcess

ServerRoutes = Callable[["CubeProcess", BearerToken], Sequence[BaseRoute]]
"""Makes further routes of a server, such as Cube's own (`compat.cube.http.server_routes`)."""


def server_app(process: CubeProcess, *, guard: BearerToken, routes: ServerRoutes | None = None) -> Starlette:
    """The application."""
    metrics_of_process = ServerMetrics(process)

    async def health(_: Request) -> Response:
        view = process.versions.view
        status = {"status": "ok" if view.version else "empty", "version": view.version, "switch": view.number}
        return JSONResponse(status, status_code=200 if view.version else 503)

    def metrics(_: Request) -> Response:
        registry = CollectorRegistry()
        registry.register(metrics_of_process)
        return Response(generate_latest(registry), media_type="text/plain; version=0.0.4")

    further = routes(process, guard) if routes is not None else ()
    return Starlette(routes=[Route("/health", health), Route("/metrics", metrics), *further])
