"""A predictor behind a bare ASGI callable: the same native reader, batcher and network as `clickline serve`.

CLICKLINE_BENCH_STORE names the store. No routing, limits, tokens or metrics: the least that an ASGI server could cost.
It has no framework, so that the server beneath it is what is measured. With CLICKLINE_BENCH_CONSTANT it computes
nothing and answers the same bytes to everybody.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, MutableMapping
from functools import partial
from typing import Any

from clickline.net.request_errors import RequestError
from clickline.serve.prediction import PredictionResult
from clickline.serve.predictor.predictor import Predictor
from clickline.serve.protocols import json_rows
from clickline.serve.serve_settings import ServeConfig

Message = MutableMapping[str, Any]
MOST_ROWS = 4096
CONSTANT = b'{"predictions":[0.5]}' if os.environ.get("CLICKLINE_BENCH_CONSTANT") else b""


class AsgiPredictor:
    """The application. The predictor is opened with the loop that is going to compute."""

    def __init__(self) -> None:
        self._predictor: Predictor | None = None

    async def __call__(
        self,
        scope: Message,
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        if scope["type"] != "http":
            return
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        answer = CONSTANT or await self._answer(body)
        length = str(len(answer)).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", length)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})

    async def _answer(self, body: bytes) -> bytes:
        loop = asyncio.get_running_loop()
        predictor = self._predictor
        if predictor is None:
            store = os.environ["CLICKLINE_BENCH_STORE"]
            config = ServeConfig.model_validate({"models": {"ctr": {"store": store}}})
            predictor = self._predictor = Predictor.of(config, on_loop=True)
            # Only this loop submits, so that the pipe of call_soon_threadsafe is not needed.
            predictor.attach(partial(_soon, loop))
            while not predictor.ready():
                await asyncio.sleep(0.01)
        chosen = predictor.choose()
        question = chosen.model_version.reader.from_json(body, most_rows=MOST_ROWS)
        future: asyncio.Future[PredictionResult | RequestError] = loop.create_future()
        predictor.submit(chosen, question, done=future.set_result)
        answer = await future
        if isinstance(answer, RequestError):
            raise answer
        return json_rows.encode(answer, missing=question.missing)


def _soon(loop: asyncio.AbstractEventLoop, compute: Callable[[], None]) -> None:
    loop.call_soon(compute)


app = AsgiPredictor()
