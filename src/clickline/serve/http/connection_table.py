"""What the connections of a worker have in common: who they are, how long they may take, what they hand requests to.

Deadlines are looked at a few times a second, all in one go; a timer for each request would cost more than the request's
parsing.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Protocol

from clickline.net.request_errors import RequestError, refuse
from clickline.serve.http.admission import ByteBudget, EvictingPool, client_network
from clickline.serve.http.busy_poll import Wakefulness
from clickline.serve.http.exchange import Exchange, Found, Mailbox
from clickline.serve.http.http_messages import Clock, Response

LOOK_EVERY = 0.2


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds."""

    head: float = 10.0
    """From a request's first byte to the end of its headers; also until a new connection says anything, and until one
    that speaks HTTP/2 makes its first call."""
    body: float = 30.0
    """From there to its last byte."""
    idle: float = 75.0
    """Between an answer and the next request, or call."""
    writing: float = 30.0
    """A client that does not read its answers."""
    linger: float = 2.0
    """What still comes after a refusal is read for so long, so that the client can read the refusal."""
    handshake: float = 10.0
    """TLS."""
    age: float = 3600.0
    """A connection that speaks HTTP/2 is asked to begin anew after so long; it may finish its calls first."""


class Guest(Protocol):
    """A connection, as far as the front is concerned."""

    deadline: float

    def expire(self) -> None: ...
    def close_if_idle(self) -> None: ...
    def abort(self) -> None: ...


class Answering(Protocol):
    """Who answers requests."""

    def authorised(self, method: bytes, url: bytes, headers: dict[bytes, bytes], *, has_body: bool) -> bool:
        """Whether a head shows the token; False: it needs none. Raises RequestError for all others."""

    def handle(self, exchange: Exchange) -> None: ...
    def resolve(self, exchange: Exchange, found: Found) -> None: ...
    def sent(self, exchange: Exchange, response: Response) -> None: ...
    def refused(self, error: RequestError) -> None: ...
    def connected(self, connections: int, *, new: bool) -> None: ...
    def evicted(self) -> None: ...


class Relaying(Protocol):
    """Who takes connections that speak HTTP/2."""

    def take(self, transport: asyncio.Transport, first: bytes, *, front: Front, guest: Guest) -> None: ...


class Front:
    """One for each worker. The loop's thread only."""

    def __init__(
        self,
        service: Answering,
        *,
        loop: asyncio.AbstractEventLoop,
        body_limit: int,
        most: int,
        unauthenticated: int | None,
        budget: ByteBudget,
        timing: Timing,
        awake: float = 0.0,
        relaying: Relaying | None = None,
    ) -> None:
        """`most` connections are kept, and so many `unauthenticated` ones beside them; None: nobody has to show a
        token. `awake`: seconds after an answer during which the loop polls for what comes next instead of sleeping."""
        self._service, self._loop, self._relaying = service, loop, relaying
        self.body_limit, self.most, self.timing = body_limit, most, timing
        self.budget = budget
        self.authorised = None if unauthenticated is None else service.authorised
        """None if nobody has to show anything."""
        self.refused = service.refused
        self.now = loop.time
        self.clock = Clock()
        self.mailbox = Mailbox(loop=loop, resolve=service.resolve)
        self._wakefulness = Wakefulness(loop, seconds=awake)
        self.guests: set[Guest] = set()
        self._known: set[Guest] = set()
        self._strangers: EvictingPool[Guest] = EvictingPool(unauthenticated or 0)
        self.draining = False
        self._ticks = 0

    def admit(self, guest: Guest, peer: object) -> bool:
        """A new connection, from an address; whether there is room for it."""
        self.guests.add(guest)
        self._service.connected(len(self.guests), new=True)
        if self.authorised is None:
            return len(self.guests) <= self.most
        evicted = self._strangers.add(guest, client_network(peer))
        if evicted is not None:
            self._service.evicted()
            evicted.abort()
        return True

    def authenticated(self, guest: Guest) -> bool:
        """It has shown the token for the first time; whether there is room for it."""
        self._strangers.discard(guest)
        self._known.add(guest)  # not all others: some have been given up and are not gone yet
        return len(self._known) <= self.most

    def full(self) -> RequestError:
        message = f"There are {self.most} connections already; try again, or use one for several requests."
        return refuse("overloaded", message, 1.0)

    def forget(self, guest: Guest) -> None:
        self.guests.discard(guest)
        self._known.discard(guest)
        self._strangers.discard(guest)
        self._service.connected(len(self.guests), new=False)

    def relay(self, guest: Guest, transport: asyncio.Transport, first: bytes) -> bool:
        """Hand a connection over; whether there is somebody who takes it."""
        if self._relaying is None:
            return False
        self._relaying.take(transport, first, front=self, guest=guest)
        return True

    def handle(self, exchange: Exchange) -> None:
        self._wakefulness.asked()
        self._service.handle(exchange)

    def sent(self, exchange: Exchange, response: Response) -> None:
        self._service.sent(exchange, response)
        self._wakefulness.answered()

    def look(self) -> None:
        """At all deadlines, now and from now on."""
        now = self.now()
        for guest in [guest for guest in self.guests if guest.deadline < now]:
            guest.expire()
        self._ticks += 1
        if self._ticks % round(1 / LOOK_EVERY) == 0:
            self.clock.tick()
        self._loop.call_later(LOOK_EVERY, self.look)
