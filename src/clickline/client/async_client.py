"""AsyncClient: Client with await, for programs that run in an event loop. What is sent and understood is the same."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Self

from clickline.client.client import MOST_KEPT, PIECE, Asking
from clickline.client.http_requests import (
    LostConnection,
    NoAnswer,
    Patience,
    Replies,
    Reply,
    check,
    default_model,
    model_names,
    model_path,
    read_json,
)
from clickline.client.payloads import Prediction, Row, read_plain, read_v2
from clickline.net.request_errors import RequestError


class _Line:
    """One connection of an AsyncClient."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer, self.replies = reader, writer, Replies()

    async def exchange(self, request: bytes) -> Reply:
        self.writer.write(request)
        await self.writer.drain()
        while True:
            reply = self.replies.feed(await self.reader.read(PIECE))
            if reply is not None:
                return reply


class AsyncClient(Asking):
    """Client with await; its connections belong to the event loop that they were opened in.

    async with AsyncClient("http://127.0.0.1:8010") as client: await client.predict({"C1": "68fd1e64"})
    """

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close idle connections."""
        lines = [self._idle.pop() for _ in range(len(self._idle))]
        for line in lines:
            line.writer.close()
        await asyncio.gather(*(line.writer.wait_closed() for line in lines), return_exceptions=True)

    async def predict(
        self,
        rows: Row | Sequence[Row],
        *,
        model: str | None = None,
        version: int | None = None,
        key: str | int | None = None,
    ) -> Prediction:
        """As Client.predict."""
        if version is not None:
            name = model or default_model(await self.status())
            return read_v2((await self._ask(self._pinned(rows, name, version))).body)
        return read_plain((await self._ask(self._plain(rows, model, key))).body)

    async def ready(self) -> bool:
        """As Client.ready."""
        try:
            reply = await self._exchange(self._requests.get("/v2/health/ready"), self._patience())
        except (LostConnection, NoAnswer):
            return False
        return reply.status == 200

    async def models(self) -> dict[str, Any]:
        """As Client.models."""
        return {name: await self.describe(name) for name in model_names(await self.status())}

    async def describe(self, model: str) -> dict[str, Any]:
        """As Client.describe."""
        said: dict[str, Any] = read_json(await self._get(model_path(model)))
        return said

    async def status(self) -> dict[str, Any]:
        """As Client.status."""
        said: dict[str, Any] = read_json(await self._get("/status"))
        return said

    async def _get(self, path: str) -> Reply:
        return await self._ask(self._requests.get(path))

    async def _ask(self, request: bytes) -> Reply:
        patience = self._patience()
        while True:
            try:
                reply = await self._exchange(request, patience)
                check(reply)
                return reply
            except (RequestError, LostConnection) as error:
                await asyncio.sleep(patience.pause_after(error))

    async def _exchange(self, request: bytes, patience: Patience) -> Reply:
        while True:
            line: _Line
            try:
                line, idle = self._idle.pop(), True
            except IndexError:
                line, idle = await self._connect(patience), False
            try:
                async with asyncio.timeout(patience.left()):
                    reply = await line.exchange(request)
            except TimeoutError:
                line.writer.close()
                raise patience.exhausted() from None
            except (OSError, LostConnection) as error:
                line.writer.close()
                if idle and not line.replies.begun:
                    continue
                raise self._lost(error) from None
            except BaseException:  # a task that is cancelled leaves half an answer behind
                line.writer.close()
                raise
            if reply.keep and len(self._idle) < MOST_KEPT:
                self._idle.append(line)
            else:
                line.writer.close()
            return reply

    async def _connect(self, patience: Patience) -> _Line:
        try:
            async with asyncio.timeout(patience.left()):
                opened = asyncio.open_connection(self.address.host, self.address.port, ssl=self._tls)
                return _Line(*await opened)
        except TimeoutError:
            raise patience.exhausted() from None
        except OSError as error:
            raise self._unreachable(error) from None
