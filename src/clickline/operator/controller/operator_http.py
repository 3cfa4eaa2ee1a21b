"""HTTP server of the operator: `/metrics`, `/healthz` for its liveness and `/readyz` for its readiness.

It runs in the event loop of everything else, so an answer alone says that the loop turns.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client.exposition import choose_encoder

from clickline.errors import JobError
from clickline.net.addresses import listen_address
from clickline.operator.controller.operator_metrics import OperatorMetrics

Complaints = Callable[[], list[str]]


@asynccontextmanager
async def operator_http(
    address: str, metrics: OperatorMetrics, *, not_live: Complaints, not_ready: Complaints
) -> AsyncIterator[None]:
    """Answer at HOST:PORT; nothing is done if there is none."""
    if not address:
        yield
        return

    async def scraped(request: web.Request) -> web.Response:
        encoder, kind = choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=encoder(metrics.registry), headers={"Content-Type": kind})

    async def live(_: web.Request) -> web.Response:
        return _answer(not_live())

    async def ready(_: web.Request) -> web.Response:
        return _answer([*not_live(), *not_ready()])

    app = web.Application()
    app.add_routes([web.get("/metrics", scraped), web.get("/healthz", live), web.get("/readyz", ready)])
    runner = web.AppRunner(app, access_log=None, handle_signals=False)
    await runner.setup()
    host, port = listen_address(address)
    try:
        try:
            await web.TCPSite(runner, host or None, port).start()
        except OSError as error:
            raise JobError(f"--health: {address!r} is not to be had: {error.strerror or error}") from error
        yield
    finally:
        await runner.cleanup()


def _answer(complaints: list[str]) -> web.Response:
    body = json.dumps({"well": not complaints, "complaints": complaints}) + "\n"
    return web.Response(status=503 if complaints else 200, text=body, content_type="application/json")
