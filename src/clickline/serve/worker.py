"""A worker: a loop that reads and writes, a predictor that computes, and their shutdown without losing a request.

To end, a worker accepts the connections that have come already, then no more; answers the requests that have come,
telling clients to connect elsewhere (`Connection: close`); closes idle connections; and aborts what is left when its
grace period is over. A second signal ends it at once.
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
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import uvloop

from clickline.processes.heartbeats.heartbeat import BEAT_EVERY
from clickline.serve.http.acceptor import Acceptor, Balance
from clickline.serve.http.admission import ByteBudget
from clickline.serve.http.auth import TokenAuth
from clickline.serve.http.connection import Connection
from clickline.serve.http.connection_table import ConnectionTable, ConnectionTimeouts
from clickline.serve.http.grpc_relay import GrpcRelay
from clickline.serve.http.request_exchange import CompletionQueue
from clickline.serve.http.request_handler import RequestHandler
from clickline.serve.metrics.counters import Counters

if TYPE_CHECKING:
    from clickline.serve.predictor.predictor import Predictor
    from clickline.serve.protocols.grpc_server import GrpcServer
    from clickline.serve.protocols.prediction_protocol import PredictionProtocol
    from clickline.serve.serve_settings import ServeConfig

log = logging.getLogger("clickline.serve")
GRACE = 10.0
_POLL_EVERY = 0.02
_READY_WITHIN = 30.0
_SETTLE = 0.2
"""Seconds that an idle connection is kept at the end: a request may be on its way."""
_SWITCH_INTERVAL = 0.0005
"""Seconds that the thread that computes waits for the one that reads; Python's default is ten times as long."""


class Worker:
    """Serves a predictor on a listening socket, for as long as `run` runs."""

    def __init__(
        self,
        config: ServeConfig,
        predictor: Predictor,
        *,
        protocols: Sequence[PredictionProtocol],
        listener: socket.socket,
        counts: Counters,
        directory: Path,
        auth: TokenAuth,
        tls: ssl.SSLContext | None = None,
        rank: int = 0,
        workers: int = 1,
        timeouts: ConnectionTimeouts | None = None,
        grace: float = GRACE,
        on_ready: Callable[[], None] = lambda: None,
        on_turn: Callable[[], None] = lambda: None,
        ready_first: bool = False,
    ) -> None:
        """`protocols`: those of predictions over HTTP that it answers. `directory` is shared by all workers of a
        predictor, and by nothing else: counters, balance, sockets.

        `on_turn` is called a few times a second by the loop. `ready_first`: accept nothing before there is a version to
        answer with, since other workers are there to accept.
        """
        self._config, self._predictor, self._protocols, self._listener = config, predictor, protocols, listener
        self._counts, self._directory, self._auth, self._tls, self._rank = counts, directory, auth, tls, rank
        self._timeouts = ConnectionTimeouts() if timeouts is None else timeouts
        self._grace, self._on_ready, self._on_turn, self._ready_first = grace, on_ready, on_turn, ready_first
        self._balance = Balance(directory, rank=rank, workers=workers)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._hurry = False
        """Whether it was told to stop a second time."""
        self._running = threading.Event()
        counts.gauge("clickline_workers", 1)

    def run(self, *, signals: bool = True) -> None:
        """Serve until `stop` or, with `signals`, until one comes, which needs the main thread."""
        _allow_descriptors()
        sys.setswitchinterval(_SWITCH_INTERVAL)
        gc.collect()
        gc.freeze()  # all that exists now stays for good: the collector need not visit it again
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._serve(signals=signals))

    def stop(self) -> None:
        """Drain and end; called a second time, end at once. Any thread."""
        self._running.wait()
        assert self._loop is not None  # noqa: S101
        with suppress(RuntimeError):  # it has ended already
            self._loop.call_soon_threadsafe(self._on_stop)

    def _on_stop(self) -> None:
        assert self._stopping is not None  # noqa: S101
        self._hurry = self._stopping.is_set()
        self._stopping.set()

    async def _serve(self, *, signals: bool) -> None:
        loop = self._loop = asyncio.get_running_loop()
        stopping = self._stopping = asyncio.Event()
        # Only now: `stop`, in another thread, waits for this and then uses `_loop` and `_stopping` without a lock.
        self._running.set()
        if signals:
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                # A signal that the parent process ignores stays ignored, as SIGHUP does under nohup.
                if signal.getsignal(number) is not signal.SIG_IGN:
                    loop.add_signal_handler(number, self._on_stop)
        relay = GrpcRelay(self._socket, loop=loop)
        grpc = self._start_grpc(relay)
        table = self._connection_table(loop, None if grpc is None else relay)
        handler = RequestHandler(
            self._predictor,
            protocols=self._protocols,
            table=table,
            counts=self._counts,
            auth=self._auth,
            directory=self._directory,
            most_rows=self._config.limits.rows,
            sticky=any(split.sticky for split in self._config.splits.values()),
            access_share=self._config.access_log,
        )
        completions = CompletionQueue(loop=loop, resolve=handler.resolve)
        acceptor = self._acceptor(loop, table, lambda: Connection(table, handler, completions))
        # Before the first connection: a predictor without threads computes nothing until it has a loop.
        self._predictor.attach(partial(_soon, loop, threading.get_ident()))
        self._turn()
        if self._ready_first:
            await self._until_ready_or_stopping(stopping)
        if not stopping.is_set():
            acceptor.start()
        table.check_deadlines()
        watching = loop.create_task(self._watch())
        await stopping.wait()
        watching.cancel()
        await self._end(table, acceptor, grpc)

    def _connection_table(self, loop: asyncio.AbstractEventLoop, relay: GrpcRelay | None) -> ConnectionTable:
        limits = self._config.limits
        return ConnectionTable(
            loop=loop,
            body_limit=limits.body,
            most=limits.connections,
            unauthenticated=None if self._auth.token is None else limits.unauthenticated,
            # At least one body of the largest size must fit, or such a request would be refused for ever.
            budget=ByteBudget(max(limits.bodies, limits.body)),
            timeouts=self._timeouts,
            awake=self._config.awake,
            relay=relay,
            counts=self._counts,
            on_connections=self._balance.report,
        )

    def _acceptor(
        self, loop: asyncio.AbstractEventLoop, table: ConnectionTable, make: Callable[[], Connection]
    ) -> Acceptor:
        limits = self._config.limits
        return Acceptor(
            self._listener,
            loop=loop,
            make=make,
            connections=lambda: len(table.connections),
            # With a token, the table has two limits side by side; their sum is what it may admit.
            most=limits.connections + (limits.unauthenticated if table.token_required else 0),
            handshakes=limits.unauthenticated,
            balance=self._balance,
            tls=self._tls,
            timeouts=self._timeouts,
            failed=lambda _: self._counts.count("clickline_failures_total", 1.0, "handshake"),
        )

    def _turn(self) -> None:
        assert self._loop is not None  # noqa: S101
        self._on_turn()
        self._loop.call_later(BEAT_EVERY, self._turn)

    async def _until_ready_or_stopping(self, stopping: asyncio.Event) -> None:
        """Wait, but not for ever: if there is no version, clients are to be told so."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_READY_WITHIN):
                while not self._predictor.ready() and not stopping.is_set():
                    await asyncio.sleep(_POLL_EVERY)

    async def _watch(self) -> None:
        """Call `on_ready` once every model has a version."""
        while not self._predictor.ready():
            await asyncio.sleep(_POLL_EVERY)
        self._on_ready()

    async def _end(self, table: ConnectionTable, acceptor: Acceptor, grpc: GrpcServer | None) -> None:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        table.draining = True  # responses say `Connection: close` from now on, and health that it is about to end
        # This accepts the backlog first: the kernel has completed those connections, and closing the last descriptor
        # of the listener would reset them.
        acceptor.close()
        self._listener.close()
        # gRPC drains its own calls meanwhile, in a thread, since its stop blocks.
        stopping = None if grpc is None else loop.run_in_executor(None, grpc.stop, self._grace)
        while acceptor.open and loop.time() < begun + self._grace and not self._hurry:
            await asyncio.sleep(_POLL_EVERY)
            # A client may have sent a request on an idle connection before it could know; give that time to arrive.
            if loop.time() > begun + _SETTLE:
                for connection in list(table.connections):
                    connection.close_if_idle()
        if table.connections:
            log.warning("%d connections are aborted", len(table.connections))
            for connection in list(table.connections):
                connection.abort()
        left = max(0.0, begun + self._grace - loop.time())
        if not self._hurry:
            # In a thread: the loop may be what computes the batches that are waited for.
            await loop.run_in_executor(None, self._predictor.drain, left)
            if stopping is not None:
                with suppress(TimeoutError):
                    await asyncio.wait_for(asyncio.shield(stopping), left + 1.0)
        self._predictor.close()
        self._counts.gauge("clickline_workers", 0)

    @property
    def _socket(self) -> Path:
        return self._directory / f"grpc.{self._rank}.sock"

    def _start_grpc(self, relay: GrpcRelay) -> GrpcServer | None:
        if not self._config.grpc:
            return None
        from clickline.serve.protocols.grpc_server import start_grpc

        self._socket.unlink(missing_ok=True)  # left by a worker that was killed
        return start_grpc(
            self._predictor,
            str(self._socket),
            token=self._auth.token,
            limits=self._config.limits,
            timeouts=self._timeouts,
            counts=self._counts,
            on_authenticated=relay.authenticated,
        )


def _soon(loop: asyncio.AbstractEventLoop, thread: int, call: Callable[[], None]) -> None:
    """Have the loop call; it first reads what else has come, and those requests then share the batch."""
    if threading.get_ident() == thread:
        # `call_soon_threadsafe` would wake the loop by a system call, which its own thread does not need.
        loop.call_soon(call)
    else:
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(call)


def _allow_descriptors() -> None:
    """Raise the limit of open descriptors as far as the system allows: each connection needs one."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
