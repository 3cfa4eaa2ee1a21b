"""HTTP/1.1 connections with a deadline in every state, and limits on how many may be silent.

uvicorn's h11 protocol times a connection between two requests only. Here every state has an end:

- A head must be complete `head_seconds` after the connection was made, or after its first byte on one that was used
  before.
- Between two requests it may be silent for `idle_seconds`.
- What is left of a body when its answer is sent is thrown away for `rest_seconds` and `rest_bytes`, then it is cut off.
- A client that does not read what it is sent is cut off after `write_seconds`; to count as reading it must take
  `write_bytes` in that time.
- How long a body may take is decided by the application that reads it.

Connections that have sent no complete head have a small limit of their own, and so have those between two requests.
When there are more, the oldest of the host that has most of them is closed to make room.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import time
from dataclasses import dataclass, field
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

_LOOKS = 10
"""How often a deadline is looked at before it is over."""
_QUIET = 60.0
"""Seconds in which uvicorn says a thing about strangers once."""


@dataclass(frozen=True)
class HttpLimits:
    """What a connection may cost before and between requests."""

    head_seconds: float = 10.0
    idle_seconds: float = 5.0
    """Between an answer and the first byte of the next request."""
    rest_seconds: float = 5.0
    rest_bytes: int = 1 << 20
    write_seconds: float = 30.0
    write_bytes: int = 16 << 10
    headless: int = 64
    """Connections that have not sent a complete head yet."""
    idle: int = 256
    """Connections between two requests."""
    per_host: int = 512
    """All connections of one host, of 1024 that a server has."""

    @property
    def look_every(self) -> float:
        return min(self.head_seconds, self.rest_seconds, self.write_seconds) / _LOOKS


class _SilentConnections:
    """Connections that wait for a head, by host, the oldest first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._count = 0
        self._by_host: dict[str, dict[HttpConnection, None]] = {}

    def add(self, connection: HttpConnection) -> None:
        # The host with most silent connections pays, so that one host cannot push out the others.
        if self._count >= self._most:
            crowd = max(self._by_host.values(), key=len)
            victim = next(iter(crowd))
            # At once: connection_lost comes in a later turn of the loop, until which the victim would be counted.
            self.discard(victim)
            victim.transport.abort()
        self._by_host.setdefault(connection.host, {})[connection] = None
        self._count += 1

    def discard(self, connection: HttpConnection) -> None:
        of_host = self._by_host.get(connection.host, {})
        if connection in of_host:
            del of_host[connection]
            self._count -= 1
            if not of_host:
                del self._by_host[connection.host]


@dataclass
class Connections:
    """What the connections of one server share."""

    limits: HttpLimits
    headless: _SilentConnections = field(init=False)
    idle: _SilentConnections = field(init=False)
    by_host: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.headless, self.idle = _SilentConnections(self.limits.headless), _SilentConnections(self.limits.idle)

    def protocol(self, **arguments: Any) -> HttpConnection:
        """For uvicorn, which makes one for each connection."""
        return HttpConnection(self, **arguments)


class HttpConnection(H11Protocol):
    """One connection."""

    def __init__(self, shared: Connections, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._shared, self._limits = shared, shared.limits
        self.timeout_keep_alive = shared.limits.idle_seconds  # type: ignore[assignment] # it has no need to be whole
        self._timer: asyncio.TimerHandle | None = None
        self.host = ""
        self._head_since: float | None = None
        """When the head that is awaited began; None: no head is awaited, or nothing of it has come."""
        self._rest_since: float | None = None
        self._rest = 0
        self._taken_at = 0.0
        """When the client last took something of what is unsent, and how much there was then."""
        self._unsent = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.host = _host(self.client[0] if self.client else "")
        # Counted before the check, since connection_lost counts down for a connection that is refused here, too.
        of_host = self._shared.by_host
        of_host[self.host] = of_host.get(self.host, 0) + 1
        if of_host[self.host] > self._limits.per_host:
            transport.abort()
            return
        self._head_since = self.loop.time()
        self._shared.headless.add(self)
        self._timer = self.loop.call_later(self._limits.look_every, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._leave_silent()
        of_host = self._shared.by_host
        of_host[self.host] -= 1
        if not of_host[self.host]:
            del of_host[self.host]
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        answered = self.cycle is not None and self.cycle.response_complete
        # A body whose answer was sent already is thrown away, but not for ever.
        if answered and self.conn.their_state is h11.SEND_BODY:
            self._rest += len(data)
            if self._rest > self._limits.rest_bytes:
                self.transport.abort()
                return
        cycle = self.cycle
        # The first byte of the next head: its deadline begins now.
        if (cycle is None or answered) and self._head_since is None:
            self._head_since = self.loop.time()
        super().data_received(data)
        # uvicorn makes a new cycle for each complete head.
        if self.cycle is not cycle:  # a head has come
            self._head_since = self._rest_since = None
            self._rest = 0
            self._leave_silent()

    def on_response_complete(self) -> None:
        cycle = self.cycle
        super().on_response_complete()  # which may begin with the next request, if it is there already
        if self.cycle is cycle and not self.transport.is_closing():
            self._shared.idle.add(self)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._taken_at = self.loop.time()

    def _leave_silent(self) -> None:
        self._shared.headless.discard(self)
        self._shared.idle.discard(self)

    def _look(self) -> None:
        now, limits = self.loop.time(), self._limits
        # Deadlines are polled, so one can be overrun by `look_every`: a tenth of the shortest.
        self._timer = self.loop.call_later(limits.look_every, self._look)
        # A client counts as reading only if it takes `write_bytes` in `write_seconds`: a byte now and then does not do.
        unsent = self.transport.get_write_buffer_size()
        if not unsent or not self._unsent or unsent <= self._unsent - limits.write_bytes:
            self._taken_at, self._unsent = now, unsent
        # The application may have written more meanwhile: what the client takes is measured from the highest level.
        self._unsent = max(self._unsent, unsent)
        if unsent and now - self._taken_at > limits.write_seconds:
            self.transport.abort()
            return
        if self._head_since is not None and now - self._head_since > limits.head_seconds:
            self.transport.abort()
            return
        if self.cycle is not None and self.cycle.response_complete and self.conn.their_state is h11.SEND_BODY:
            self._rest_since = now if self._rest_since is None else self._rest_since
            if now - self._rest_since > limits.rest_seconds:
                self.transport.abort()


def _host(address: str) -> str:
    """Who shares a limit: an IPv6 host has as many addresses as it likes, but one network of 64 bits."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return address
    return str(parsed.ipv4_mapped or ipaddress.ip_network((parsed, 64), strict=False))


class OncePerMinute(logging.Filter):
    """Lets uvicorn log a warning about requests once a minute, so that strangers cannot fill the log."""

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno > logging.WARNING:
            return True
        now = time.monotonic()
        # By the text without its arguments: they may come from clients, and each one would be new and kept for ever.
        if now - self._said.get(str(record.msg), -_QUIET) < _QUIET:
            return False
        self._said[str(record.msg)] = now
        return True


QUIET = OncePerMinute()
