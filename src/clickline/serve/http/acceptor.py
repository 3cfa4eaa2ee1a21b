"""The acceptor: new connections from a listening socket that several workers may share.

Workers would not share evenly by themselves: the one that wakes first takes all that has come. So each writes into a
small shared file how many connections it has, and one that has more than another waits for two milliseconds before it
accepts. A worker that does not use its turn delays the others by no more than that.

Clients in a TLS handshake are not authenticated: they have a limit of their own, as those have that have not shown the
token (`admission`).
"""

from __future__ import annotations

import asyncio
import errno
import logging
import mmap
import socket
import ssl
from collections.abc import Callable
from pathlib import Path

from clickline.serve.http.admission import EvictingPool, client_network
from clickline.serve.http.connection_table import ConnectionTimeouts

log = logging.getLogger("clickline.serve")
_LET_OTHERS = 0.002
_OUT_OF_DESCRIPTORS = 0.1
_IN_A_ROW = 64
_BEING_CLOSED = 4 * _IN_A_ROW
"""Connections that were closed already, but count until the loop has called back for them."""


class Balance:
    """The number of connections of each worker, in a file that all of them map into memory."""

    def __init__(self, directory: Path, *, rank: int, workers: int) -> None:
        self._rank, self._alone = rank, workers == 1
        path = directory / "balance"
        path.touch(mode=0o600)
        with path.open("r+b") as file:
            # Every worker does this; the size is the same for all, so the numbers of the others stay.
            file.truncate(8 * workers)
            self._numbers = memoryview(mmap.mmap(file.fileno(), 8 * workers)).cast("d")
        self.report(0)

    @property
    def alone(self) -> bool:
        return self._alone

    def report(self, connections: int) -> None:
        # No lock: each worker writes only its own number, and a stale one costs another worker a pause of 2 ms.
        self._numbers[self._rank] = connections

    def ahead(self) -> bool:
        """Whether another worker has fewer connections."""
        return not self._alone and self._numbers[self._rank] > min(self._numbers)


class Acceptor:
    """Accepts until it is closed. The loop's thread only."""

    def __init__(
        self,
        listener: socket.socket,
        *,
        loop: asyncio.AbstractEventLoop,
        make: Callable[[], asyncio.Protocol],
        connections: Callable[[], int],
        most: int,
        handshakes: int,
        balance: Balance,
        tls: ssl.SSLContext | None,
        timeouts: ConnectionTimeouts,
        failed: Callable[[Exception], None],
    ) -> None:
        """Up to twice `most` connections are accepted, so that the first ones above the limit can be told why they are
        refused. `handshakes`: of TLS, at the same time; one more evicts the oldest."""
        self._listener, self._loop, self._make, self._connections, self._most = listener, loop, make, connections, most
        self._balance, self._tls, self._timeouts, self._failed = balance, tls, timeouts, failed
        self._adopting: set[asyncio.Task[None]] = set()
        # In one turn of the loop not so many that the first would be evicted before a byte of it was read.
        # With several workers one at a time, so that `ahead` is evaluated again before the next.
        self._in_a_row = max(1, min(_IN_A_ROW, handshakes // 2)) if balance.alone else 1
        self._handshakes: EvictingPool[asyncio.Task[None]] = EvictingPool(handshakes)
        self._open = True
        listener.setblocking(False)

    @property
    def open(self) -> int:
        """Connections, including those that are being set up."""
        return self._connections() + len(self._adopting)

    def start(self) -> None:
        self._loop.add_reader(self._listener.fileno(), self._readable)

    def close(self) -> None:
        """Accept what has already come, then no more. The caller closes the socket."""
        if self._open:
            self._open = False
            self._loop.remove_reader(self._listener.fileno())
            # More than any backlog holds, so this ends when the socket would block.
            self._accept(1 << 16)

    def _readable(self) -> None:
        if self._balance.ahead():
            self._wait(_LET_OTHERS)
        else:
            self._accept(self._in_a_row)

    def _wait(self, seconds: float) -> None:
        self._loop.remove_reader(self._listener.fileno())
        self._loop.call_later(seconds, self._after_waiting)

    def _after_waiting(self) -> None:
        # `close` may have been called during the pause; the descriptor must then not be watched again. Without a second
        # look at `ahead`: if the workers with fewer connections do not accept, this one has to.
        if self._open:
            self._accept(1)
            self.start()

    def _accept(self, most: int) -> None:
        for _ in range(most):
            try:
                taken, peer = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                # Without descriptors or memory the socket stays readable: without a pause the loop would spin on it.
                if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    raise
                log.warning("cannot accept connections for now: %s", error)
                if self._open:
                    self._wait(_OUT_OF_DESCRIPTORS)
                return
            if self.open > 2 * self._most + _BEING_CLOSED:  # too many to tell each of them why
                taken.close()
                continue
            taken.setblocking(False)
            # The loop itself refers to tasks only weakly; the set also lets `open` count handshakes.
            task = self._loop.create_task(self._adopt(taken))
            self._adopting.add(task)
            task.add_done_callback(self._adopted)
            if self._tls is not None:
                evicted = self._handshakes.add(task, client_network(peer))
                if evicted is not None:
                    evicted.cancel()
            # The table reports a connection only when it is set up; the other workers have to see it now.
            self._balance.report(self.open)

    def _adopted(self, task: asyncio.Task[None]) -> None:
        self._adopting.discard(task)
        self._handshakes.discard(task)

    async def _adopt(self, taken: socket.socket) -> None:
        limit = self._timeouts.handshake if self._tls is not None else None
        try:
            await self._loop.connect_accepted_socket(self._make, taken, ssl=self._tls, ssl_handshake_timeout=limit)
        except (TimeoutError, OSError, ssl.SSLError) as error:
            taken.close()
            self._failed(error)
        except asyncio.CancelledError:
            taken.close()
            self._failed(TimeoutError("evicted by a newer handshake"))
            raise
