"""Cube's status API of transfer.

    GET  /dict/info, /instance/status, /dict/scaler, /dict/meta_info, /dict/deploy/history
    POST /dict/meta_info/register

Answers have the envelope {"success", "message", "data"}.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from clickline.compat.cube.http.transfer_views import TransferViews
from clickline.cube.transfer.transfer import Transfer
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
"""Characters of all metas that are registered: they are written anew with each step of a rollout."""


class CubeTransferApi:
    """Handlers of Cube's routes."""

    def __init__(self, transfer: Transfer, guard: BearerToken, *, wget_port: int = 0) -> None:
        self._transfer, self._guard = transfer, guard
        self._views = TransferViews(transfer, wget_port=wget_port)

    def routes(self) -> list[BaseRoute]:
        """The last one answers every path that is not known."""
        return [
            Route("/dict/info", self._info),
            Route("/instance/status", self._instances),
            Route("/dict/scaler", self._scaler),
            Route("/dict/meta_info", self._meta_info),
            Route("/dict/meta_info/register", self._register, methods=["POST"]),
            Route("/dict/deploy/history", self._history),
            Route("/{path:path}", self._unknown, methods=["GET", "POST", "PUT", "DELETE"]),
        ]

    def _info(self, _: Request) -> Response:
        return envelope(OK, "query ok", self._views.info())

    def _instances(self, _: Request) -> Response:
        return envelope(OK, "query ok", self._views.instances())

    def _history(self, _: Request) -> Response:
        return envelope(OK, "query ok", self._views.history())

    def _scaler(self, request: Request) -> Response:
        shard = request.query_params.get("shard", "")
        number, shards = decimal(shard), len(self._transfer.layout.shards)
        if number is None or number >= shards:
            return envelope(WRONG_REQUEST, f"shard {shard!r:.40} must be a number below {shards}")
        return envelope(OK, "query ok", self._views.scaler(number))

    def _meta_info(self, request: Request) -> Response:
        query = {key: request.query_params.get(key, "") for key in ("name", "version", "depend", "shard")}
        missing = [key for key, value in query.items() if not value]
        if missing:
            return envelope(WRONG_REQUEST, f"{', '.join(missing)} missing")
        meta = self._views.find_meta(**query, split=request.query_params.get("split", "0"))
        return envelope(FAILED, "no such meta info") if meta is None else envelope(OK, "query ok", meta)

    async def _register(self, request: Request) -> Response:
        if not self._guard.admits(request.headers.get("authorization", "")):
            return unauthorised()
        try:
            key, meta = _registration(await json_object(request, trusted=True))
        except ValueError as error:
            return envelope(WRONG_REQUEST, str(error))
        metas = self._transfer.ledger.metas
        if len(metas) >= _MOST_METAS or sum(map(len, metas.values())) + len(meta) > _ALL_METAS:
            return envelope(FAILED, f"{len(metas)} are registered already; there is no room for more")
        await run_in_threadpool(self._transfer.register_meta, key, meta)
        return envelope(OK, "register ok")

    async def _unknown(self, request: Request) -> Response:
        return wrong_path(request, API)


def transfer_routes(transfer: Transfer, guard: BearerToken, *, wget_port: int = 0) -> list[BaseRoute]:
    """Routes for `TransferProcess`; `wget_port` is only reported."""
    return CubeTransferApi(transfer, guard, wget_port=wget_port).routes()


def _registration(asked: Mapping[str, Any]) -> tuple[str, str]:
    """Key and text of a meta that is to be kept. Raises ValueError."""
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
