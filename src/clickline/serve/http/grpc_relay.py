"""gRPC on the same port: a connection that begins as HTTP/2 does is passed through, byte by byte, to the gRPC server.

That server listens on a socket in a directory which only this user can enter. Whoever sends faster than the other side
takes it is not read from until that has caught up. gRPC checks the token itself, as metadata, and says by which of our
connections it was shown: each has a name of its own, which gRPC sees as the address of its peer.

Deadlines are the same as for HTTP/1.1: to make the first call, to send a call to its end, to read the answers. For them
the heads of the frames are looked at. Connections that make no calls any more gRPC ends itself, with a word of warning.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from pathlib import Path
from typing import cast

from clickline.serve.http.connection_table import Front, Guest
from clickline.serve.http.http2_frames import OpenCalls

log = logging.getLogger("clickline.serve")
_PEER = "unix-abstract:"
_IDLE = 2
"""gRPC ends idle connections; only if it has not done so after twice the time, we do."""


class Relays:
    """The connections that are passed through."""

    def __init__(self, path: Path, *, loop: asyncio.AbstractEventLoop) -> None:
        self._path, self._loop = path, loop
        self._tasks: set[asyncio.Task[None]] = set()
        self._strangers: dict[str, _Outside] = {}
        """Connections by which no token was shown yet, by the name of their inner side."""

    def take(self, transport: asyncio.Transport, first: bytes, *, front: Front, guest: Guest) -> None:
        """From now on, what comes by this connection is not ours. `first` was read from it already."""
        transport.pause_reading()
        task = self._loop.create_task(self._connect(transport, first, front=front, guest=guest))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def authenticated(self, peer: str) -> None:
        """A call has shown the token, by the connection that gRPC calls so. Any thread."""
        name = peer.removeprefix(_PEER)
        if name in self._strangers:
            self._loop.call_soon_threadsafe(self._let_in, name)

    def forget(self, name: str) -> None:
        self._strangers.pop(name, None)

    def _let_in(self, name: str) -> None:
        outer = self._strangers.pop(name, None)
        if outer is not None:
            outer.authenticated()

    async def _connect(self, transport: asyncio.Transport, first: bytes, *, front: Front, guest: Guest) -> None:
        connection = socket.socket(socket.AF_UNIX)
        connection.setblocking(False)
        connection.bind("")  # the system gives it a name that nobody else has
        name = connection.getsockname()[1:].decode("ascii")
        inner, outer = _Inside(), _Outside(front, guest, relays=self, name=name)
        outer.transport, outer.other, inner.other = transport, inner, outer  # before: the other side may speak first
        inner.calls = outer.calls
        if front.authorised is not None:
            self._strangers[name] = outer
        try:
            await self._loop.sock_connect(connection, str(self._path))
            made, _ = await self._loop.create_unix_connection(lambda: inner, sock=connection)
        except OSError as error:
            log.error("gRPC cannot be reached at %s: %s", self._path, error)
            connection.close()
            self.forget(name)
            transport.close()
            return
        transport.set_protocol(outer)
        if transport.is_closing():
            made.close()
            self.forget(name)
            return
        outer.calls.client_sent(first, front.now())
        made.write(first)
        transport.resume_reading()


class _Side(asyncio.Protocol):
    """One end; what it reads, the other writes."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.other: _Side | None = None
        self.calls = OpenCalls()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.write(data)

    def pause_writing(self) -> None:
        if self.other is not None and self.other.transport is not None and not self.other.transport.is_closing():
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None and self.other.transport is not None and not self.other.transport.is_closing():
            self.other.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        if self.other is not None and self.other.transport is not None:
            self.other.transport.close()


class _Inside(_Side):
    """The end of the gRPC server."""

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self.calls.server_sent(data)
        if isinstance(self.other, _Outside):
            self.other.moved_on()


class _Outside(_Side):
    """The client's end, which the front counts."""

    def __init__(self, front: Front, guest: Guest, *, relays: Relays, name: str) -> None:
        super().__init__()
        self._front, self._guest, self._relays, self._name = front, guest, relays, name
        self._full = False

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self.calls.client_sent(data, self._front.now())
        self.moved_on()
        if self.calls.too_many:
            self._guest.abort()

    def moved_on(self) -> None:
        """Something else may be waited for now: until when?"""
        if self._full:
            return
        timing, oldest = self._front.timing, self.calls.oldest
        if oldest is not None:
            self._guest.deadline = oldest + timing.body
        elif self.calls.calls:
            self._guest.deadline = self._front.now() + _IDLE * timing.idle
        # else it has as long for its first call as it was given in the beginning

    def pause_writing(self) -> None:
        super().pause_writing()
        self._full = True
        self._guest.deadline = self._front.now() + self._front.timing.writing

    def resume_writing(self) -> None:
        super().resume_writing()
        self._full = False
        self.moved_on()

    def authenticated(self) -> None:
        if not self._front.authenticated(self._guest):
            self._front.refused(self._front.full())
            self._guest.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._relays.forget(self._name)
        self._front.forget(self._guest)
