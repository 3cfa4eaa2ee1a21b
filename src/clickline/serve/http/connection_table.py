"""The open connections of a worker: how many are admitted, how long each may take, which limits they share.

Deadlines are checked a few times a second, all in one go; a timer for each request would cost more than parsing it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from clickline.net.request_errors import RequestError, refuse
from clickline.serve.http.admission import ByteBudget, EvictingPool, client_network
from clickline.serve.http.busy_poll import BusyPoll
from clickline.serve.http.http_messages import DateHeader
from clickline.serve.metrics.metric_sink import MetricSink, NoMetrics

CHECK_EVERY = 0.2
"""Seconds between two checks of all deadlines."""


@dataclass(frozen=True, slots=True)
class ConnectionTimeouts:
    """Seconds."""

    head: float = 10.0
    """From a request's first byte to the end of its headers; also until a new connection sends anything, and until one
    that speaks HTTP/2 makes its first call."""
    body: float = 30.0
    """From there to its last byte."""
    idle: float = 75.0
    """Between a response and the next request, or call."""
    writing: float = 30.0
    """A client that does not read its responses."""
    linger: float = 2.0
    """What still comes after a refusal is read for so long, so that the client can read the refusal."""
    handshake: float = 10.0
    """TLS."""
    age: float = 3600.0
    """A connection that speaks HTTP/2 is asked to reconnect after so long; it may finish its calls first."""


class TrackedConnection(Protocol):
    """A connection, as the table sees it."""

    deadline: float
    """When it expires, by the loop's clock."""

    def expire(self) -> None: ...
    def close_if_idle(self) -> None: ...
    def abort(self) -> None: ...


class Http2Relay(Protocol):
    """Takes over connections that speak HTTP/2."""

    def take(
        self, transport: asyncio.Transport, first: bytes, *, table: ConnectionTable, connection: TrackedConnection
    ) -> None: ...


class ConnectionTable:
    """The connections of one worker, and what they share. The loop's thread only."""

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        body_limit: int,
        most: int,
        unauthenticated: int | None,
        budget: ByteBudget,
        timeouts: ConnectionTimeouts,
        awake: float = 0.0,
        relay: Http2Relay | None = None,
        counts: MetricSink | None = None,
        on_connections: Callable[[int], None] = lambda _: None,
    ) -> None:
        """`most` connections are kept, and so many `unauthenticated` ones beside them; None: no token is required.
        `awake`: seconds after a response during which the loop polls for what comes next instead of sleeping.
        `on_connections` is called with the number of connections whenever it changes."""
        self._loop, self._relay, self._on_connections = loop, relay, on_connections
        self._counts: MetricSink = NoMetrics() if counts is None else counts
        self.body_limit, self.most, self.timeouts, self.budget = body_limit, most, timeouts, budget
        self.token_required = unauthenticated is not None
        self.now = loop.time
        self.date = DateHeader()
        self.busy_poll = BusyPoll(loop, seconds=awake)
        self.connections: set[TrackedConnection] = set()
        self._authenticated: set[TrackedConnection] = set()
        self._unauthenticated: EvictingPool[TrackedConnection] = EvictingPool(unauthenticated or 0)
        self.draining = False
        self._checks = 0

    def admit(self, connection: TrackedConnection, peer: object) -> bool:
        """Add a new connection, from an address. Returns whether there is room for it."""
        # Also if it is refused below: its deadline has to be checked until the client has read the refusal.
        self.connections.add(connection)
        self._counts.count("clickline_connections_total")
        self._report()
        if not self.token_required:
            return len(self.connections) <= self.most
        evicted = self._unauthenticated.add(connection, client_network(peer))
        if evicted is not None:
            self._counts.count("clickline_failures_total", 1.0, "evicted")
            # Not closed: a peer that does not read would keep the descriptor until the write buffer is empty.
            evicted.abort()
        return True

    def authenticated(self, connection: TrackedConnection) -> bool:
        """A connection has shown the token for the first time. Returns whether there is room for it."""
        self._unauthenticated.discard(connection)
        # Counted by themselves, not as all minus the others: some that were evicted have not disappeared yet.
        self._authenticated.add(connection)
        return len(self._authenticated) <= self.most

    def full(self) -> RequestError:
        """The error for a connection beyond the limit."""
        message = f"there are {self.most} connections already; try again, or use one for several requests"
        return refuse("overloaded", message, 1.0)

    def refused(self, error: RequestError) -> None:
        """Count what was refused before it was a request."""
        self._counts.count("clickline_failures_total", 1.0, error.reason)

    def forget(self, connection: TrackedConnection) -> None:
        self.connections.discard(connection)
        self._authenticated.discard(connection)
        self._unauthenticated.discard(connection)
        self._report()

    def relay(self, connection: TrackedConnection, transport: asyncio.Transport, first: bytes) -> bool:
        """Hand over a connection that speaks HTTP/2. Returns whether HTTP/2 is answered at all."""
        if self._relay is None:
            return False
        self._relay.take(transport, first, table=self, connection=connection)
        return True

    def check_deadlines(self) -> None:
        """Expire what is overdue, now and from now on every CHECK_EVERY seconds."""
        now = self.now()
        for connection in [connection for connection in self.connections if connection.deadline < now]:
            connection.expire()
        self._checks += 1
        if self._checks % round(1 / CHECK_EVERY) == 0:
            self.date.tick()
        self._loop.call_later(CHECK_EVERY, self.check_deadlines)

    def _report(self) -> None:
        self._counts.gauge("clickline_connections", len(self.connections))
        self._on_connections(len(self.connections))
