"""One call to a predictor, by the sync or by the async client: tests run with both."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from clickline import AsyncClient, Client

Call = Callable[..., Any]


def sync_call(url: str, method: str, *arguments: Any, options: dict[str, Any] | None = None, **named: Any) -> Any:
    with Client(url, **(options or {})) as client:
        return getattr(client, method)(*arguments, **named)


def async_call(url: str, method: str, *arguments: Any, options: dict[str, Any] | None = None, **named: Any) -> Any:
    async def run() -> Any:
        async with AsyncClient(url, **(options or {})) as client:
            return await getattr(client, method)(*arguments, **named)

    return asyncio.run(run())
