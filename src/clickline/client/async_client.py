"""The asynchronous client: Client with await, for programs that run in an event loop. It sends and reads the same."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Self

from clickline.client.client import MOST_KEPT, PIECE, BaseClient
from clickline.client.http_requests import (
    LostConnection,
    Reply,
    ReplyParser,
    check,
    default_model,
    model_names,
    model_path,
    read_json,
)
from clickline.client.payloads import Prediction, Row, read_infer, read_json_rows
from clickline.client.retry_budget import NoAnswer, RetryBudget
from clickline.net.predictor_documents import ModelMetadata, PredictionServerStatus
from clickline.net.request_errors import RequestError


class _Connection:
    """One connection of an AsyncClient."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer, self.replies = reader, writer, ReplyParser()

    async def exchange(self, request: bytes) -> Reply:
        self.writer.write(request)
        await self.writer.drain()
        while True:
            reply = self.replies.feed(await self.reader.read(PIECE))
            if reply is not None:
                return reply


class AsyncClient(BaseClient):
    """Client with await; its connections belong to the event loop that they were opened in.

    async with AsyncClient("http://127.0.0.1:8010") as client: await client.predict({"C1": "68fd1e64"})
    """

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close idle connections."""
        # All are taken before the first await, so that no other task gets one that is being closed.
        connections = [self._idle.pop() for _ in range(len(self._idle))]
        for connection in connections:
            connection.writer.close()
        await asyncio.gather(*(connection.writer.wait_closed() for connection in connections), return_exceptions=True)

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
            return read_infer((await self._ask(self._pinned(rows, name, version))).body)
        return read_json_rows((await self._ask(self._json_rows(rows, model, key))).body)

    async def ready(self) -> bool:
        """As Client.ready."""
        try:
            reply = await self._exchange(self._requests.get("/v2/health/ready"), self._retry_budget())
        except (LostConnection, NoAnswer):
            return False
        return reply.status == 200

    async def models(self) -> dict[str, ModelMetadata]:
        """As Client.models."""
        return {name: await self.describe(name) for name in model_names(await self.status())}

    async def describe(self, model: str) -> ModelMetadata:
        """As Client.describe."""
        metadata: ModelMetadata = read_json(await self._get(model_path(model)))
        return metadata

    async def status(self) -> PredictionServerStatus:
        """As Client.status."""
        status: PredictionServerStatus = read_json(await self._get("/status"))
        return status

    async def _get(self, path: str) -> Reply:
        return await self._ask(self._requests.get(path))

    async def _ask(self, request: bytes) -> Reply:
        budget = self._retry_budget()
        while True:
            try:
                reply = await self._exchange(request, budget)
                check(reply)
                return reply
            except (RequestError, LostConnection) as error:
                await asyncio.sleep(budget.pause_after(error))

    async def _exchange(self, request: bytes, budget: RetryBudget) -> Reply:
        while True:
            connection: _Connection
            try:
                connection, idle = self._idle.pop(), True
            except IndexError:
                connection, idle = await self._connect(budget), False
            try:
                async with asyncio.timeout(budget.left()):
                    reply = await connection.exchange(request)
            except TimeoutError:
                connection.writer.close()
                raise budget.exhausted() from None
            except (OSError, LostConnection) as error:
                connection.writer.close()
                # Closed by the server while idle: no try is used up, as in Client.
                if idle and not connection.replies.begun:
                    continue
                raise self._lost(error) from None
            except BaseException:  # a cancelled task leaves part of a response behind
                connection.writer.close()
                raise
            if reply.keep and len(self._idle) < MOST_KEPT:
                self._idle.append(connection)
            else:
                connection.writer.close()
            return reply

    async def _connect(self, budget: RetryBudget) -> _Connection:
        try:
            async with asyncio.timeout(budget.left()):
                opened = asyncio.open_connection(self.address.host, self.address.port, ssl=self._tls)
                return _Connection(*await opened)
        except TimeoutError:
            raise budget.exhausted() from None
        except OSError as error:
            raise self._unreachable(error) from None
