"""HTTP of a process of the cube: an application served by a thread, on a given port or any free one.

A request that changes something needs the token (`tokens.BearerToken`), which is checked before its body is read.
Bodies are JSON objects with a limit in bytes and seconds; those of all clients without the token share one more limit.
Answers of agent and transfer have the envelope of Cube's, {"success", "message", "data"}, whose codes are strings.
"""

from __future__ import annotations

import asyncio
import json
import math
from typing import Any, NoReturn
from urllib.parse import urlsplit

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from clickline.net.http_connections import HttpLimits
from clickline.net.http_server import HttpServer

OK, WRONG_PATH, WRONG_REQUEST, FAILED = "0", "2", "10", "255"
BODY_LIMIT = 1 << 20
BODY_SECONDS = 30.0
STRANGERS_BODIES = 64 << 20
"""Bytes of bodies without a token that a process has in memory at a time."""


class WebServer(HttpServer):
    """Serves `app` from the moment it is made until it is closed."""

    def __init__(self, app: ASGIApp, *, host: str, port: int, limits: HttpLimits | None = None) -> None:
        super().__init__(listen=f"[{host}]:{port}" if ":" in host else f"{host}:{port}", limits=limits)
        self._app = app
        self.__enter__()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)

    @property
    def port(self) -> int:
        return urlsplit(self.address).port or 0


class _Untrusted:
    """Bytes of bodies without a token that are in memory now."""

    bytes = 0


async def json_object(
    request: Request, *, trusted: bool, limit: int = BODY_LIMIT, seconds: float | None = None
) -> dict[str, Any]:
    """The body of a request, which is `trusted` if it has shown the token. Raises ValueError if it is not accepted."""
    body = bytearray()
    seconds = BODY_SECONDS if seconds is None else seconds
    try:
        async with asyncio.timeout(seconds):
            async for piece in request.stream():
                body += piece
                # In step with `body` and before any check, so that `finally` gives back exactly what was counted.
                _Untrusted.bytes += 0 if trusted else len(piece)
                if len(body) > limit:
                    raise ValueError(f"the body has more than {limit} bytes")
                if not trusted and _Untrusted.bytes > STRANGERS_BODIES:
                    raise ValueError("too many bodies are under way; try again")
    except TimeoutError:
        raise ValueError(f"the body did not come within {seconds:g} seconds") from None
    except ClientDisconnect:
        raise ValueError("the connection ended before the body did") from None
    finally:
        _Untrusted.bytes -= 0 if trusted else len(body)
    value = strict_json(bytes(body))
    if not isinstance(value, dict):
        raise ValueError("the body is not a JSON object")
    return value


def strict_json(text: bytes | str) -> Any:
    """JSON that we could also send: finite numbers, and text that UTF-8 can encode. Raises ValueError otherwise."""
    text = text.decode("utf-8") if isinstance(text, bytes) else text
    try:
        value = json.loads(text, parse_constant=_not_finite, parse_float=_finite)
    except RecursionError:
        raise ValueError("JSON that is nested too deeply") from None
    # Half a surrogate pair can only come from an escape, since UTF-8 was decoded strictly: other texts need no second
    # pass.
    if "\\u" in text:
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise ValueError("JSON with half of a character") from None
    return value


def _not_finite(text: str) -> NoReturn:
    raise ValueError(f"JSON with {text}, which is not a number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"JSON with {text:.20}, which no number here can hold")
    return number


def decimal(text: str) -> int | None:
    """A number as it stands in a query, or None; no more digits than a version can have."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 19 else None


def envelope(success: str, message: str, data: Any = "", *, status: int = 200, **more: Any) -> JSONResponse:
    return JSONResponse({"success": success, "message": message, "data": data, **more}, status_code=status)


def unauthorised() -> JSONResponse:
    return envelope(FAILED, "this needs the token: Authorization: Bearer …", status=401)


def wrong_path(request: Request, api_list: list[str]) -> JSONResponse:
    """Cube's answer to an unknown path: the list of known ones."""
    return JSONResponse(
        {
            "success": WRONG_PATH,
            "message": "wrong api",
            "data": "",
            "method": request.method,
            "api": request.url.path,
            "api_list": api_list,
        },
        status_code=404,
    )
