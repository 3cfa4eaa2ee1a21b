"""Transfer's HTTP: status, commands, health, metrics, the built files, and the routes that are given to it.

    GET  /status                                             TransferStatus, as it is
    POST /notify, /rollback, /resume
    GET  /health, /metrics
    GET  /output/<base>_<version>/<name>_part<i>.tar         for agents

Answers to commands have the envelope {"success", "message", "data"}; docs/reference/cube-http.md has the shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp

from clickline.cube.transfer.transfer import Transfer
from clickline.cube.transfer.transfer_status import transfer_status
from clickline.errors import ClicklineError
from clickline.net.tokens import BearerToken
from clickline.net.web_server import (
    FAILED,
    OK,
    WRONG_REQUEST,
    envelope,
    json_object,
    unauthorised,
)

TransferRoutes = Callable[[Transfer, BearerToken], Sequence[BaseRoute]]
"""Makes further routes of transfer, such as Cube's own (`compat.cube.http.transfer_routes`)."""


class TransferApi:
    """Handlers of transfer's own routes."""

    def __init__(self, transfer: Transfer, *, guard: BearerToken) -> None:
        self._transfer, self._guard = transfer, guard

    def app(self, *, files: ASGIApp, routes: TransferRoutes | None = None) -> Starlette:
        """The application; `files` serves the builds."""
        further = routes(self._transfer, self._guard) if routes is not None else ()
        return Starlette(
            routes=[
                Route("/status", self._status),
                Route("/notify", self._notify, methods=["POST"]),
                Route("/rollback", self._rollback, methods=["POST"]),
                Route("/resume", self._resume, methods=["POST"]),
                Route("/health", self._health),
                Route("/metrics", self._metrics),
                Mount("/output", files),
                *further,
            ]
        )

    def _status(self, _: Request) -> Response:
        return Response(msgspec.json.encode(transfer_status(self._transfer)), media_type="application/json")

    async def _notify(self, _: Request) -> Response:
        await run_in_threadpool(self._transfer.notify)
        return envelope(OK, "notified")

    async def _rollback(self, request: Request) -> Response:
        if not self._guard.admits(request.headers.get("authorization", "")):
            return unauthorised()
        try:
            body = await json_object(request, trusted=True)
            version = int(body.get("version") or 0)
        except (ValueError, TypeError) as error:
            return envelope(WRONG_REQUEST, str(error))
        try:
            result = await run_in_threadpool(self._transfer.rollback, version)
        except ClicklineError as error:
            return envelope(FAILED, str(error))
        return envelope(OK, "rolled back", msgspec.to_builtins(result))

    async def _resume(self, request: Request) -> Response:
        if not self._guard.admits(request.headers.get("authorization", "")):
            return unauthorised()
        await run_in_threadpool(self._transfer.resume)
        return envelope(OK, "resumed")

    async def _health(self, _: Request) -> Response:
        transfer = self._transfer
        in_trouble = [instance.name for instance in transfer.instances if instance.trouble_since is not None]
        current = transfer.ledger.current
        return JSONResponse(
            {"version": current.version if current else 0, "problem": transfer.problem, "in_trouble": in_trouble}
        )

    def _metrics(self, _: Request) -> Response:
        registry = CollectorRegistry()
        transfer = self._transfer
        current, instances = transfer.ledger.current, transfer.instances
        in_trouble = sum(instance.trouble_since is not None for instance in instances)
        gauges = {
            "version": ("The version in service", current.version if current else 0),
            "switch": ("Number of the last switch", transfer.ledger.number),
            "instances": ("Servers that there should be", len(instances)),
            "instances_in_trouble": ("Servers that are dead or failing", in_trouble),
            "problem": ("1: the newest version cannot be delivered", int(bool(transfer.problem))),
        }
        for name, (text, value) in gauges.items():
            Gauge(f"clickline_transfer_{name}", text, registry=registry).set(value)
        finished = Counter("clickline_transfer_rollouts", "Rollouts that were finished or given up", registry=registry)
        finished.inc(len(transfer.ledger.past))
        return Response(generate_latest(registry), media_type="text/plain; version=0.0.4")
