"""Running an ASGI application by itself: in a thread for as long as a `with` lasts, or until a signal comes.

The socket is bound before anything else, so that the address is known at once, also for port 0, and a port that is
taken is an error here and not in a log. How long connections may be silent, and how many of them: http_connections.py.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import Self, cast

import uvicorn
from starlette.types import Receive, Scope, Send

from clickline.errors import PeerError
from clickline.net.addresses import listen_address, url_of
from clickline.net.http_connections import QUIET, Connections, HttpLimits
from clickline.net.listening_sockets import bind

LARGEST_HEADERS = 32 << 10
_MOST_CONNECTIONS = 1024
_GRACE = 5
_START = 10.0


class HttpServer(ABC):
    """Base of applications that can also run by themselves."""

    def __init__(self, *, listen: str, limits: HttpLimits | None = None) -> None:
        self._host, self._port = listen_address(listen)
        self._limits = limits or HttpLimits()
        self._socket: socket.socket | None = None
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None
        self.on_turn: Callable[[], None] = lambda: None
        """Called ten times a second by the event loop, to send a heartbeat for example."""
        self._turns = self._turns_told = 0

    @abstractmethod
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The application."""

    @property
    def address(self) -> str:
        """With the real port."""
        if self._socket is None:
            raise PeerError("the server does not listen yet: start it first")
        host, port = self._socket.getsockname()[:2]
        return url_of(host, port)

    @property
    def connections(self) -> int:
        """How many there are now."""
        return 0 if self._server is None else len(self._server.server_state.connections)

    def bind(self) -> None:
        """Take the port. Connections wait until the server runs."""
        if self._socket is not None:
            return
        self._socket = bind(self._host, self._port)
        # `log_config=None`: uvicorn would otherwise set up its own loggers, beside those of the process.
        config = uvicorn.Config(
            self,
            http=cast("type[asyncio.Protocol]", Connections(self._limits).protocol),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            limit_concurrency=_MOST_CONNECTIONS,
            h11_max_incomplete_event_size=LARGEST_HEADERS,
            timeout_graceful_shutdown=_GRACE,
        )
        self._server = _Server(config, on_turn=self._turn)
        logging.getLogger("uvicorn.error").addFilter(QUIET)  # the same again changes nothing

    def turned(self) -> bool:
        """Whether the event loop has turned since the last call."""
        before, self._turns_told = self._turns_told, self._turns
        return self._turns_told != before

    def _turn(self) -> None:
        self._turns += 1
        self.on_turn()

    def run(self) -> None:
        """Serve until SIGINT or SIGTERM, of which the first is raised again at the end. Main thread."""
        self.bind()
        assert self._server is not None and self._socket is not None  # noqa: S101
        self._server.run(sockets=[self._socket])

    def __enter__(self) -> Self:
        self.bind()
        assert self._server is not None  # noqa: S101
        self._thread = threading.Thread(target=self.run, name=f"http {self.address}", daemon=True)
        self._thread.start()
        # Uvicorn has no event for it: it sets `started` when its loop runs, or its thread ends.
        waited = threading.Event()
        for _ in range(int(_START / 0.005)):
            if self._server.started or not self._thread.is_alive():
                break
            waited.wait(0.005)
        if not self._server.started:
            raise PeerError(f"the server at {self.address} did not start")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop and wait for it."""
        if self._thread is not None and self._server is not None:
            self._server.should_exit = True
            self._thread.join(2 * _GRACE)
            self._thread = None
        if self._socket is not None:
            self._socket.close()


class _Server(uvicorn.Server):
    """Tells when its loop turns. Uvicorn's own `callback_notify` goes by the wall clock, which may be set back."""

    def __init__(self, config: uvicorn.Config, *, on_turn: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_turn = on_turn

    async def on_tick(self, counter: int) -> bool:
        self._on_turn()
        return await super().on_tick(counter)
