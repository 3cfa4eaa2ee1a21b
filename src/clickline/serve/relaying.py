"""gRPC on the same port: a connection that begins as HTTP/2 does is passed through, byte by byte, to the gRPC server.

That server listens on a socket in a directory which only this user can enter. Whoever sends faster than the other side
takes it is not read from until that has caught up. gRPC checks the token itself, as metadata.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import cast

from clickline.serve.fronts import Front, Guest

log = logging.getLogger("clickline.serve")


class Relays:
    """The connections that are passed through."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._tasks: set[asyncio.Task[None]] = set()

    def take(self, transport: asyncio.Transport, first: bytes, *, front: Front, guest: Guest) -> None:
        """From now on, what comes by this connection is not ours. `first` was read from it already."""
        transport.pause_reading()
        task = asyncio.get_running_loop().create_task(self._connect(transport, first, front=front, guest=guest))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, transport: asyncio.Transport, first: bytes, *, front: Front, guest: Guest) -> None:
        inner, outer = _Side(), _Outside(front, guest)
        outer.transport, outer.other, inner.other = transport, inner, outer  # before: the other side may speak first
        try:
            made, _ = await asyncio.get_running_loop().create_unix_connection(lambda: inner, str(self._path))
        except OSError as error:
            log.error("gRPC cannot be reached at %s: %s", self._path, error)
            transport.close()
            return
        if transport.is_closing():
            made.close()
            return
        transport.set_protocol(outer)
        made.write(first)
        transport.resume_reading()


class _Side(asyncio.Protocol):
    """One end; what it reads, the other writes."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.other: _Side | None = None

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


class _Outside(_Side):
    """The client's end, which the front counts."""

    def __init__(self, front: Front, guest: Guest) -> None:
        super().__init__()
        self._front, self._guest = front, guest

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._front.forget(self._guest)
