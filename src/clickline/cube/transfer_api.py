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

from clickline.cube.building import find_build, meta_of
from clickline.cube.deployments import Deployment
from clickline.cube.shardfiles import build_name, part_name
from clickline.cube.transferring import Transfer
from clickline.cube.webserving import (
    FAILED,
    OK,
    WRONG_REQUEST,
    Guard,
    decimal,
    envelope,
    json_object,
    strict_json,
    unauthorised,
    wrong_path,
)
from clickline.errors import ClicklineError

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


class Telling:
    """Transfer's state in the older shapes."""

    def __init__(self, transfer: Transfer, *, wget_port: int) -> None:
        self._transfer, self._wget_port = transfer, wget_port

    def info(self) -> dict[str, Any]:
        transfer, plan, ledger = self._transfer, self._transfer.plan, self._transfer.ledger
        instances = transfer.instances
        rolling = ledger.rolling
        version = rolling.version if rolling else 0
        return {
            "dict_name": plan.name,
            "dict_mode": plan.mode,
            "shard_num": plan.shards,
            "copy_num": max(map(len, plan.replicas)),
            "inst_num": len(instances),
            "deploy_path": plan.deploy_path,
            "donefile_addr": plan.donefile,
            "output_addr": str(plan.output),
            "tmp_addr": str(plan.scratch),
            "download_mode": plan.download_mode,
            "wget_port": self._wget_port,
            "download_inst": sum(one.has_downloaded(version) for one in instances) if rolling else 0,
            "reload_insts": sum(one.has_loaded(version) for one in instances) if rolling else 0,
            "enable_insts": sum(one.serves(version, rolling.number) for one in instances) if rolling else 0,
            "instances": self.instances(),
            "wait_version_info": self.version(rolling) if rolling else {},
            "current_version_info": [self.version(one) for one in ledger.deployed(plan.keep)[::-1]],
            "problem": transfer.problem,
            "held": ledger.held,
        }

    def instances(self) -> list[dict[str, Any]]:
        transfer = self._transfer
        ledger = transfer.ledger
        steps = {one.version: one.step for one in (*ledger.past, ledger.current, ledger.rolling) if one is not None}
        told = []
        for one in transfer.instances:
            step = steps.get(one.version)
            facts = (
                {} if step is None else {"mode": step.mode, "depend": str(step.base), "id": step.id, "key": step.key}
            )
            found = one.to_dict(name=transfer.plan.name, step=facts)
            made = step and find_build(transfer.plan.output, step.base, step.version)
            told.append({**found, "builded_time": int(made.facts["time"]) if made else found["builded_time"]})
        return told

    def version(self, one: Deployment) -> dict[str, Any]:
        plan = self._transfer.plan
        metas = {str(shard): json.dumps(self.meta(one, shard)) for shard in range(plan.shards)}
        output = str(plan.output / build_name(one.step.base, one.version))
        return one.to_dict(name=plan.name, output=output, metas=metas)

    def meta(self, one: Deployment, shard: int) -> dict[str, Any]:
        made = find_build(self._transfer.plan.output, one.step.base, one.version)
        return {} if made is None else meta_of(made.file(shard))

    def find_meta(self, *, name: str, version: str, depend: str, shard: str, split: str) -> Any:
        """What was registered, else what the builder knows; None if neither."""
        transfer = self._transfer
        registered = transfer.ledger.metas.get("_".join((name, version, depend, shard, split)))
        if registered is not None:
            return json.loads(registered)
        number, base, part = decimal(version), decimal(depend), decimal(shard)
        if name != transfer.plan.name or number is None or base is None or part is None:
            return None
        made = find_build(transfer.plan.output, base, number)
        return None if made is None or part >= transfer.plan.shards else meta_of(made.file(part))

    def scaler(self, shard: int) -> list[dict[str, Any]]:
        """What a new replica of a shard has to load, in order."""
        transfer = self._transfer
        current = transfer.ledger.current
        if current is None:
            return []
        found = []
        for step in current.chain:
            part = part_name(transfer.plan.name, shard)
            found.append(
                {
                    "name": transfer.plan.name,
                    "version": str(step.version),
                    "depend": str(step.base),
                    "id": step.id,
                    "key": step.key,
                    "shard": shard,
                    "mode": step.mode,
                    "data_source": transfer.address_of(f"{build_name(step.base, step.version)}/{part}"),
                }
            )
        return found


def transfer_app(transfer: Transfer, *, guard: Guard, files: ASGIApp, wget_port: int) -> Starlette:
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
        if not guard.admits(request):
            return unauthorised()
        try:
            asked = await json_object(request)
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
        if not guard.admits(request):
            return unauthorised()
        try:
            asked = await json_object(request)
            version = int(asked.get("version") or 0)
        except (ValueError, TypeError) as error:
            return envelope(WRONG_REQUEST, str(error))
        try:
            return envelope(OK, "rolled back", await run_in_threadpool(transfer.rollback, version))
        except ClicklineError as error:
            return envelope(FAILED, str(error))

    async def resume(request: Request) -> Response:
        if not guard.admits(request):
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
