"""Requests that have to wait are counted and said in the log. The test plays an API server that is busy or slow."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import kopf
import pytest
from aiohttp import web

from clickline.operator.controller import api_client
from clickline.operator.controller.api_client import ApiClient
from clickline.operator.controller.operator_metrics import OperatorMetrics


@asynccontextmanager
async def busy_server(handle: Any) -> AsyncIterator[ApiClient]:
    app = web.Application()
    app.router.add_get("/api/v1/pods", handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    metrics = OperatorMetrics()
    try:
        info = kopf.ConnectionInfo(server=f"http://{host}:{port}")
        async with ApiClient(lambda: info, metrics=metrics) as client:
            client.test_metrics = metrics  # type: ignore[attr-defined]
            yield client
    finally:
        await runner.cleanup()


def value(client: ApiClient, name: str, **labels: str) -> float | None:
    return client.test_metrics.registry.get_sample_value(name, labels)  # type: ignore[attr-defined, no-any-return]


def test_a_request_that_the_api_server_puts_off_is_made_again(caplog: pytest.LogCaptureFixture) -> None:
    answers = [429, 429, 200]

    async def handle(_: web.Request) -> web.Response:
        return web.json_response({"items": []}, status=answers.pop(0), headers={"Retry-After": "0"})

    async def listed() -> None:
        async with busy_server(handle) as client:
            assert await client.list("pods") == []
            requests = "clickline_operator_api_requests_total"
            assert value(client, requests, verb="LIST", resource="pods", code="429") == 2
            assert value(client, requests, verb="LIST", resource="pods", code="200") == 1
            assert value(client, "clickline_operator_api_throttled_total", by="server") == 2

    with caplog.at_level(logging.WARNING):
        asyncio.run(listed())
    assert "the API server is busy (429): GET /api/v1/pods waits for 0.0 s" in caplog.text


def test_requests_that_wait_for_each_other_are_said_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_client, "_LONG_WAIT", 0.01)

    async def handle(_: web.Request) -> web.Response:
        await asyncio.sleep(0.05)
        return web.json_response({"items": []})

    async def listed() -> None:
        async with busy_server(handle) as client:
            await asyncio.gather(*(client.list("pods") for _ in range(20)))
            assert value(client, "clickline_operator_api_throttled_total", by="client") == 4

    with caplog.at_level(logging.WARNING):
        asyncio.run(listed())
    assert caplog.text.count("for one of 16 connections to the API server") == 1
