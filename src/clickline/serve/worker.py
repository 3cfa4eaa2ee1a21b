"""One worker: a loop that reads and writes, a predictor that computes, and their end without losing a request.

To end, a worker takes the connections that have come already, then no more; answers what was asked, telling clients to
come back elsewhere (`Connection: close`); closes connections that have nothing to say; and gives up what is left when
its time is over. A second signal ends it at once.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import resource
import signal
import socket
import ssl
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvloop

from clickline.processes.heartbeat import BEAT_EVERY
from clickline.serve.http.acceptor import Acceptor, Balance
from clickline.serve.http.admission import ByteBudget
from clickline.serve.http.auth import Guard
from clickline.serve.http.connection import Connection
from clickline.serve.http.connection_table import Front, Timing
from clickline.serve.http.grpc_relay import Relays
from clickline.serve.http.route_handlers import Service
from clickline.serve.metrics.counters import Counts

if TYPE_CHECKING:
    from clickline.serve.predictor.predictor import Predictor
    from clickline.serve.serve_settings import ServeConfig

log = logging.getLogger("clickline.serve")
GRACE = 10.0
_LOOK_EVERY = 0.02
_READY_WITHIN = 30.0
_SETTLE = 0.2
"""Seconds that a connection without a request is kept once we end: one may be on its way."""
_SWITCH = 0.0005
"""The thread that computes waits no longer for the one that reads, where Python's own limit is ten times as long."""


class Worker:
    """Serves a predictor on a socket that listens. `run` is its life."""

    def __init__(
        self,
        config: ServeConfig,
        predictor: Predictor,
        *,
        listener: socket.socket,
        counts: Counts,
        directory: Path,
        guard: Guard,
        tls: ssl.SSLContext | None = None,
        rank: int = 0,
        workers: int = 1,
        timing: Timing | None = None,
        grace: float = GRACE,
        on_ready: Callable[[], None] = lambda: None,
        on_turn: Callable[[], None] = lambda: None,
        ready_first: bool = False,
    ) -> None:
        """`directory` is shared by all workers: counts, balance, sockets. It must not be anybody else's.

        `on_turn` is called a few times a second by the loop. `ready_first`: accept nothing before there is a version to
        answer with, for others are there to accept.
        """
        self._config, self._predictor, self._listener, self._counts = config, predictor, listener, counts
        self._directory, self._guard, self._tls, self._rank = directory, guard, tls, rank
        self._timing = Timing() if timing is None else timing
        self._grace, self._on_ready, self._on_turn, self._ready_first = grace, on_ready, on_turn, ready_first
        self._balance = Balance(directory, rank=rank, workers=workers)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._told: asyncio.Event | None = None
        self._hurry = False
        self._running = threading.Event()
        counts.gauge("clickline_workers", 1)

    def run(self, *, signals: bool = True) -> None:
        """Until `stop`, or, with `signals`, until one comes, which needs the main thread."""
        _allow_descriptors()
        sys.setswitchinterval(_SWITCH)
        gc.collect()
        gc.freeze()  # what is there now stays: no use in looking at it again and again
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._live(signals=signals))

    def stop(self) -> None:
        """End in an orderly way; said twice, at once. Any thread."""
        self._running.wait()
        assert self._loop is not None  # noqa: S101
        with suppress(RuntimeError):  # it has ended already
            self._loop.call_soon_threadsafe(self._be_told)

    def _be_told(self) -> None:
        assert self._told is not None  # noqa: S101
        self._hurry = self._told.is_set()
        self._told.set()

    async def _live(self, *, signals: bool) -> None:
        loop = self._loop = asyncio.get_running_loop()
        told = self._told = asyncio.Event()
        self._running.set()
        if signals:
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                if signal.getsignal(number) is not signal.SIG_IGN:
                    loop.add_signal_handler(number, self._be_told)
        limits = self._config.limits
        budget = ByteBudget(max(limits.bodies, limits.body))
        unauthenticated = None if self._guard.token is None else limits.unauthenticated
        service = Service(
            self._predictor,
            counts=self._counts,
            guard=self._guard,
            directory=self._directory,
            most_rows=limits.rows,
            body_limit=limits.body,
            budget=budget,
            sticky=any(split.sticky for split in self._config.splits.values()),
            access_share=self._config.access_log,
            on_connections=self._balance.tell,
        )
        relays = Relays(self._socket, loop=loop)
        grpc = self._start_grpc(relays)
        front = Front(
            service,
            loop=loop,
            body_limit=limits.body,
            most=limits.connections,
            unauthenticated=unauthenticated,
            budget=budget,
            timing=self._timing,
            awake=self._config.awake,
            relaying=None if grpc is None else relays,
        )
        acceptor = Acceptor(
            self._listener,
            loop=loop,
            make=lambda: Connection(front),
            connections=lambda: len(front.guests),
            most=limits.connections + (unauthenticated or 0),
            handshakes=limits.unauthenticated,
            balance=self._balance,
            tls=self._tls,
            timing=self._timing,
            failed=lambda _: self._counts.count("clickline_failures_total", 1.0, "handshake"),
        )
        self._predictor.attach(partial(_soon, loop, threading.get_ident()))
        self._turn()
        if self._ready_first:
            await self._until_ready_or_told(told)
        if not told.is_set():
            acceptor.start()
        front.look()
        watching = loop.create_task(self._watch())
        await told.wait()
        watching.cancel()
        service.draining = True
        await self._end(front, acceptor, grpc)

    def _turn(self) -> None:
        assert self._loop is not None  # noqa: S101
        self._on_turn()
        self._loop.call_later(BEAT_EVERY, self._turn)

    async def _until_ready_or_told(self, told: asyncio.Event) -> None:
        """Not for ever: if there is no version to be had, that is what clients should hear."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_READY_WITHIN):
                while not self._predictor.ready() and not told.is_set():
                    await asyncio.sleep(_LOOK_EVERY)

    async def _watch(self) -> None:
        """Tell once that every model has a version."""
        while not self._predictor.ready():
            await asyncio.sleep(_LOOK_EVERY)
        self._on_ready()

    async def _end(self, front: Front, acceptor: Acceptor, grpc: Any) -> None:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        front.draining = True
        acceptor.close()
        self._listener.close()
        stopping = None if grpc is None else loop.run_in_executor(None, grpc.stop, self._grace)
        while acceptor.open and loop.time() < begun + self._grace and not self._hurry:
            await asyncio.sleep(_LOOK_EVERY)
            if loop.time() > begun + _SETTLE:
                for guest in list(front.guests):
                    guest.close_if_idle()
        if front.guests:
            log.warning("%d connections are given up", len(front.guests))
            for guest in list(front.guests):
                guest.abort()
        left = max(0.0, begun + self._grace - loop.time())
        if not self._hurry:
            await loop.run_in_executor(None, self._predictor.drain, left)
            if stopping is not None:
                with suppress(TimeoutError):
                    await asyncio.wait_for(asyncio.shield(stopping), left + 1.0)
        self._predictor.close()
        self._counts.gauge("clickline_workers", 0)

    @property
    def _socket(self) -> Path:
        return self._directory / f"grpc.{self._rank}.sock"

    def _start_grpc(self, relays: Relays) -> Any:
        if not self._config.grpc:
            return None
        from clickline.serve.protocols.grpc_service import start_grpc

        self._socket.unlink(missing_ok=True)  # of a worker before us that was killed
        return start_grpc(
            self._predictor,
            str(self._socket),
            token=self._guard.token,
            limits=self._config.limits,
            timing=self._timing,
            counts=self._counts,
            on_authenticated=relays.authenticated,
        )


def _soon(loop: asyncio.AbstractEventLoop, thread: int, call: Callable[[], None]) -> None:
    """Have the loop call; it first reads what else has come, which then shares the batch."""
    if threading.get_ident() == thread:
        loop.call_soon(call)
    else:
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(call)


def _allow_descriptors() -> None:
    """As many as the system lets us have: each connection needs one."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
