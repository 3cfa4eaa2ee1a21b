"""TCP and Unix connections that pass through here, so that they can be cut, stalled and slowed.

One thread with an event loop carries all of them. A link listens at `address` for a target; several targets of one
suite are reached through links without knowing it, since a link only passes bytes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

_PIECE = 1 << 16
_Result = TypeVar("_Result")


class Link:
    """One of them. All but the constructor's facts belong to the event loop; `Links` is how others change it."""

    def __init__(self, name: str, target: Callable[[], str]) -> None:
        self.name, self._target = name, target
        self.address = ""
        self.cut = False
        self.delay = 0.0
        self.passing = asyncio.Event()
        """Cleared: bytes wait, connections stay open."""
        self.passing.set()
        self._writers: set[asyncio.StreamWriter] = set()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.cut:
            writer.transport.abort()
            return
        await self.passing.wait()
        try:
            beyond_reader, beyond_writer = await _open(self._target())
        except (OSError, ValueError):  # the target does not listen (yet)
            writer.transport.abort()
            return
        both = {writer, beyond_writer}
        self._writers |= both
        try:
            await asyncio.gather(self._pump(reader, beyond_writer), self._pump(beyond_reader, writer))
        finally:
            self._writers -= both
            for each in both:
                each.transport.abort() if self.cut else each.close()

    def break_off(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, RuntimeError):
            while data := await reader.read(_PIECE):
                await self.passing.wait()
                if self.delay:
                    await asyncio.sleep(self.delay)
                writer.write(data)
                await writer.drain()
        with contextlib.suppress(OSError, RuntimeError):
            if writer.can_write_eof():
                writer.write_eof()


class Links:
    """All links of a run. A context manager."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="links", daemon=True)
        self._by_name: dict[str, Link] = {}
        self._servers: dict[str, asyncio.AbstractServer] = {}

    def __enter__(self) -> Links:
        self._directory.mkdir(parents=True, exist_ok=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._close_all())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def add(self, name: str, target: str | Callable[[], str]) -> str:
        """A link to a target (`tcp:HOST:PORT` or `unix:PATH`); returns the address, of the same family, to use."""
        link = Link(name, target if callable(target) else lambda: target)
        return self._run(self._listen(link, unix=not callable(target) and target.startswith("unix:")))

    def remove(self, name: str) -> None:
        self._run(self._remove(name))

    def known(self, name: str) -> bool:
        return name in self._by_name

    def cut(self, name: str) -> None:
        """Break connections off, and refuse new ones, until it is mended."""
        self._call(name, _cut)

    def stall(self, name: str) -> None:
        """Nothing passes any more, and nobody is told."""
        self._call(name, lambda link: link.passing.clear())

    def slow(self, name: str, delay: float) -> None:
        """Every piece that passes waits for so many seconds."""
        self._call(name, lambda link: setattr(link, "delay", delay))

    def mend(self, name: str) -> None:
        self._call(name, _mend)

    def _call(self, name: str, change: Callable[[Link], None]) -> None:
        async def apply() -> None:
            if name in self._by_name:  # else what it led to has ended meanwhile
                change(self._by_name[name])

        self._run(apply())

    def _run(self, task: Coroutine[Any, Any, _Result]) -> _Result:
        return asyncio.run_coroutine_threadsafe(task, self._loop).result(30)

    async def _listen(self, link: Link, *, unix: bool) -> str:
        if unix:
            path = self._directory / f"{link.name}.sock"
            path.unlink(missing_ok=True)
            server: asyncio.AbstractServer = await asyncio.start_unix_server(link.accept, path)
            link.address = f"unix:{path}"
        else:
            tcp = server = await asyncio.start_server(link.accept, "127.0.0.1", 0)
            link.address = f"tcp:127.0.0.1:{tcp.sockets[0].getsockname()[1]}"
        self._by_name[link.name], self._servers[link.name] = link, server
        return link.address

    async def _remove(self, name: str) -> None:
        link = self._by_name.pop(name)
        self._servers.pop(name).close()
        link.passing.set()
        link.break_off()

    async def _close_all(self) -> None:
        for name in list(self._by_name):
            await self._remove(name)
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _cut(link: Link) -> None:
    link.cut = True
    link.break_off()


def _mend(link: Link) -> None:
    link.cut, link.delay = False, 0.0
    link.passing.set()


async def _open(target: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if target.startswith("unix:"):
        return await asyncio.open_unix_connection(target.removeprefix("unix:"))
    host, port = target.removeprefix("tcp:").rsplit(":", 1)
    return await asyncio.open_connection(host, int(port))
