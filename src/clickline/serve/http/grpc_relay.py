"""gRPC on the same port: a connection that begins as HTTP/2 does is relayed, byte by byte, to the gRPC server.

That server listens on a unix socket in a directory which only this user can enter. A side that sends faster than the
other one reads is not read from until that has caught up. gRPC checks the token itself, as metadata, and reports by
which of our connections it was shown: each of them has a socket name of its own, which gRPC sees as the address of its
peer.

Deadlines are the same as for HTTP/1.1: to make the first call, to send a call to its end, to read the responses. For
them the heads of the frames are parsed (http2_frames). gRPC itself ends connections that make no more calls, with a
GOAWAY.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from pathlib import Path
from typing import cast

from clickline.serve.http.connection_table import ConnectionTable, TrackedConnection
from clickline.serve.http.http2_frames import OpenCalls

log = logging.getLogger("clickline.serve")
_PEER = "unix-abstract:"
_IDLE = 2
"""gRPC ends idle connections; this relay does so only if gRPC has not after twice the time."""


class GrpcRelay:
    """The connections that are relayed; an Http2Relay."""

    def __init__(self, path: Path, *, loop: asyncio.AbstractEventLoop) -> None:
        self._path, self._loop = path, loop
        self._tasks: set[asyncio.Task[None]] = set()
        self._unauthenticated: dict[str, _ClientSide] = {}
        """Connections by which no token was shown yet, by the socket name of their other side."""

    def take(
        self, transport: asyncio.Transport, first: bytes, *, table: ConnectionTable, connection: TrackedConnection
    ) -> None:
        """Relay a connection from now on. `first` was read from it already."""
        # The Connection drops what it reads from now on; nothing may be read before `set_protocol`.
        transport.pause_reading()
        task = self._loop.create_task(self._connect(transport, first, table=table, connection=connection))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def authenticated(self, peer: str) -> None:
        """A call has shown the token; `peer` is gRPC's name for its connection. Any thread."""
        name = peer.removeprefix(_PEER)
        # Most calls come by connections that have shown it before. This check may be stale; `_admit` repeats it.
        if name in self._unauthenticated:
            self._loop.call_soon_threadsafe(self._admit, name)

    def forget(self, name: str) -> None:
        self._unauthenticated.pop(name, None)

    def _admit(self, name: str) -> None:
        client = self._unauthenticated.pop(name, None)
        if client is not None:
            client.authenticated()

    async def _connect(
        self, transport: asyncio.Transport, first: bytes, *, table: ConnectionTable, connection: TrackedConnection
    ) -> None:
        inner = socket.socket(socket.AF_UNIX)
        inner.setblocking(False)
        inner.bind("")  # the kernel gives it an abstract name that is unique
        name = inner.getsockname()[1:].decode("ascii")
        server, client = _ServerSide(), _ClientSide(table, connection, relay=self, name=name)
        # Before connecting: gRPC sends its settings first, and they must find where to go.
        client.transport, client.other, server.other = transport, server, client
        server.calls = client.calls
        # Before the first byte is relayed: a thread of gRPC may report the token as soon as the first call arrives.
        if table.token_required:
            self._unauthenticated[name] = client
        try:
            await self._loop.sock_connect(inner, str(self._path))
            made, _ = await self._loop.create_unix_connection(lambda: server, sock=inner)
        except OSError as error:
            log.error("gRPC cannot be reached at %s: %s", self._path, error)
            inner.close()
            self.forget(name)
            transport.close()
            return
        # From here on the transport calls `client`, no longer the Connection that it was accepted with.
        transport.set_protocol(client)
        if transport.is_closing():  # the client has gone meanwhile, and only the Connection has heard of it
            made.close()
            self.forget(name)
            return
        client.calls.client_sent(first, table.now())
        made.write(first)
        transport.resume_reading()


class _Side(asyncio.Protocol):
    """One side of a relayed connection: what it reads, the other side writes."""

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


class _ServerSide(_Side):
    """The side of the gRPC server."""

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self.calls.server_sent(data)
        if isinstance(self.other, _ClientSide):
            self.other.moved_on()


class _ClientSide(_Side):
    """The client's side, whose connection is in the table."""

    def __init__(self, table: ConnectionTable, connection: TrackedConnection, *, relay: GrpcRelay, name: str) -> None:
        super().__init__()
        self._table, self._connection, self._relay, self._name = table, connection, relay, name
        self._full = False

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self.calls.client_sent(data, self._table.now())
        self.moved_on()
        if self.calls.too_many:
            self._connection.abort()

    def moved_on(self) -> None:
        """Something else may be awaited now: set the deadline anew."""
        # The deadline for reading responses holds until the write buffer has emptied.
        if self._full:
            return
        timeouts, oldest = self._table.timeouts, self.calls.oldest
        if oldest is not None:
            # The oldest call decides, so that further calls do not prolong its time.
            self._connection.deadline = oldest + timeouts.body
        elif self.calls.calls:
            self._connection.deadline = self._table.now() + _IDLE * timeouts.idle
        # else the deadline of a new connection stays, within which it has to make its first call

    def pause_writing(self) -> None:
        super().pause_writing()
        self._full = True
        self._connection.deadline = self._table.now() + self._table.timeouts.writing

    def resume_writing(self) -> None:
        super().resume_writing()
        self._full = False
        self.moved_on()

    def authenticated(self) -> None:
        if not self._table.authenticated(self._connection):
            self._table.refused(self._table.full())
            self._connection.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._relay.forget(self._name)
        self._table.forget(self._connection)
