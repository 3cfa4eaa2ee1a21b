"""Transfer's HTTP: the older status API, and what it lacked: notify, rollback, resume, health, metrics, the files.

    GET  /dict/info, /instance/status, /dict/scaler, /dict/meta_info, /dict/deploy/history
    POST /dict/meta_info/register
    POST /notify, /rollback, /resume
    GET  /output/<base>_<version>/<name>_part<i>.tar         for agents

Answers have the envelope {"success", "message", "data"}; docs/reference/cube-http.md has the shapes.
"""

from __future__ import annotations

import json
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp

from clickline.cube.transfer.status_views import Telling
from clickline.cube.transfer.transfer import Transfer
from clickline.errors import ClicklineError
from clickline.net.tokens import BearerToken
from clickline.net.web_server import (
    FAILED,
    OK,
    WRONG_REQUEST,
    decimal,
    envelope,
    json_object,
    strict_json,
    unauthorised,
    wrong_path,
)

API = [
    "/dict/info",
    "/instance/status",
    "/dict/scaler",
    "/dict/meta_info",
    "/dict/meta_info/register",
    "/dict/deploy/history",
]
_REGISTERED = ("name", "version", "depend", "shard", "meta")
_MOST_METAS = 10_000
_LARGEST_META = 64 << 10
_ALL_METAS = 16 << 20
"""Characters of all that is registered: it is written anew with each step of a rollout."""


def transfer_app(transfer: Transfer, *, guard: BearerToken, files: ASGIApp, wget_port: int) -> Starlette:
    """The application; `files` serves the builds."""
    telling = Telling(transfer, wget_port=wget_port)

    def info(_: Request) -> Response:
        return envelope(OK, "query ok", telling.info())

    def instances(_: Request) -> Response:
        return envelope(OK, "query ok", telling.instances())

    def history(_: Request) -> Response:
        return envelope(OK, "query ok", [telling.version(one) for one in transfer.ledger.past[::-1]])

    def scaler(request: Request) -> Response:
        shard = request.query_params.get("shard", "")
        number = decimal(shard)
        if number is None or number >= transfer.plan.shards:
            return envelope(WRONG_REQUEST, f"shard {shard!r:.40} must be a number below {transfer.plan.shards}")
        return envelope(OK, "query ok", telling.scaler(number))

    def meta_info(request: Request) -> Response:
        asked = {key: request.query_params.get(key, "") for key in ("name", "version", "depend", "shard")}
        missing = [key for key, value in asked.items() if not value]
        if missing:
            return envelope(WRONG_REQUEST, f"{', '.join(missing)} missing")
        found = telling.find_meta(**asked, split=request.query_params.get("split", "0"))
        return envelope(FAILED, "no such meta info") if found is None else envelope(OK, "query ok", found)

    async def register(request: Request) -> Response:
        if not guard.admits(request.headers.get("authorization", "")):
            return unauthorised()
        try:
            asked = await json_object(request, trusted=True)
            key, meta = _registration(asked)
        except ValueError as error:
            return envelope(WRONG_REQUEST, str(error))
        metas = transfer.ledger.metas
        if len(metas) >= _MOST_METAS or sum(map(len, metas.values())) + len(meta) > _ALL_METAS:
            return envelope(FAILED, f"{len(metas)} are registered already; there is no room for more")
        await run_in_threadpool(transfer.register_meta, key, meta)
        return envelope(OK, "register ok")

    async def notify(_: Request) -> Response:
        await run_in_threadpool(transfer.notify)
        return envelope(OK, "notified")

    async def rollback(request: Request) -> Response:
        if not guard.admits(request.headers.get("authorization", "")):
            return unauthorised()
        try:
            asked = await json_object(request, trusted=True)
            version = int(asked.get("version") or 0)
        except (ValueError, TypeError) as error:
            return envelope(WRONG_REQUEST, str(error))
        try:
            return envelope(OK, "rolled back", await run_in_threadpool(transfer.rollback, version))
        except ClicklineError as error:
            return envelope(FAILED, str(error))

    async def resume(request: Request) -> Response:
        if not guard.admits(request.headers.get("authorization", "")):
            return unauthorised()
        await run_in_threadpool(transfer.resume)
        return envelope(OK, "resumed")

    async def health(_: Request) -> Response:
        dead = [one.name for one in transfer.instances if one.trouble_since is not None]
        current = transfer.ledger.current
        facts = {"version": current.version if current else 0, "problem": transfer.problem, "in_trouble": dead}
        return JSONResponse(facts)

    def metrics(_: Request) -> Response:
        return Response(_metrics(transfer), media_type="text/plain; version=0.0.4")

    async def other(request: Request) -> Response:
        return wrong_path(request, API)

    return Starlette(
        routes=[
            Route("/dict/info", info),
            Route("/instance/status", instances),
            Route("/dict/scaler", scaler),
            Route("/dict/meta_info", meta_info),
            Route("/dict/meta_info/register", register, methods=["POST"]),
            Route("/dict/deploy/history", history),
            Route("/notify", notify, methods=["POST"]),
            Route("/rollback", rollback, methods=["POST"]),
            Route("/resume", resume, methods=["POST"]),
            Route("/health", health),
            Route("/metrics", metrics),
            Mount("/output", files),
            Route("/{path:path}", other, methods=["GET", "POST", "PUT", "DELETE"]),
        ]
    )


def _registration(asked: dict[str, Any]) -> tuple[str, str]:
    missing = [key for key in _REGISTERED if asked.get(key) in (None, "")]
    if missing:
        raise ValueError(f"{', '.join(missing)} missing")
    meta = asked["meta"]
    if isinstance(meta, str):
        meta = strict_json(meta)
    if not isinstance(meta, dict):
        raise ValueError("meta must be a JSON object")
    key = "_".join(str(asked[name]) for name in _REGISTERED[:-1]) + f"_{asked.get('split', 0)}"
    text = json.dumps(meta)
    if len(key) > 1000 or len(text) > _LARGEST_META:
        raise ValueError(f"what is registered must have at most {_LARGEST_META} bytes, its name at most 1000")
    return key, text


def _metrics(transfer: Transfer) -> bytes:
    registry = CollectorRegistry()
    current, instances = transfer.ledger.current, transfer.instances
    gauges = {
        "version": ("The version in service", current.version if current else 0),
        "switch": ("Number of the last switch", transfer.ledger.number),
        "instances": ("Servers that there should be", len(instances)),
        "instances_in_trouble": (
            "Servers that are dead or failing",
            sum(o.trouble_since is not None for o in instances),
        ),
        "problem": ("1: the newest version cannot be delivered", int(bool(transfer.problem))),
    }
    for name, (text, value) in gauges.items():
        Gauge(f"clickline_transfer_{name}", text, registry=registry).set(value)
    finished = Counter("clickline_transfer_rollouts", "Rollouts that were finished or given up", registry=registry)
    finished.inc(len(transfer.ledger.past))
    return generate_latest(registry)
