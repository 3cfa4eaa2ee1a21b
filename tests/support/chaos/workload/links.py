"""TCP and Unix connections that pass through here, so that they can be cut, stalled and slowed.

A process of its own carries all of them, so that clients which compute do not delay what passes. A link listens at an
address for a target; who comes through it does not notice, since a link only passes bytes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import threading
from pathlib import Path

from clickline.processes.child import live_no_longer_than_parent

_PIECE = 1 << 16


class Link:
    """One of them, in the carrier's event loop."""

    def __init__(self, name: str, target: str) -> None:
        self.name, self.target = name, target
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
            beyond_reader, beyond_writer = await _open(self.target)
        except (OSError, ValueError, KeyError):  # the target does not listen (yet)
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


class Carrier:
    """All links, in the event loop of a process of their own. Orders are JSON lines, each is answered by one."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._by_name: dict[str, Link] = {}
        self._servers: dict[str, asyncio.AbstractServer] = {}

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        orders = asyncio.StreamReader()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
        while line := await orders.readline():
            order = json.loads(line)
            print(json.dumps(await self._obey(**order)), flush=True)

    async def _obey(self, op: str, name: str, target: str = "", delay: float = 0.0) -> str:
        if op == "add":
            return await self._listen(Link(name, target))
        link = self._by_name.get(name)
        if link is None:  # what it led to has ended meanwhile
            return ""
        if op == "remove":
            del self._by_name[name]
            self._servers.pop(name).close()
            link.passing.set()
            link.break_off()
        elif op == "cut":
            link.cut = True
            link.break_off()
        elif op == "stall":
            link.passing.clear()
        elif op == "slow":
            link.delay = delay
        elif op == "mend":
            link.cut, link.delay = False, 0.0
            link.passing.set()
        return link.address

    async def _listen(self, link: Link) -> str:
        if link.target.startswith("unix:"):
            path = self._directory / f"{link.name}.sock"
            path.unlink(missing_ok=True)
            server: asyncio.AbstractServer = await asyncio.start_unix_server(link.accept, path)
            link.address = f"unix:{path}"
        else:
            tcp = server = await asyncio.start_server(link.accept, "127.0.0.1", 0)
            link.address = f"tcp:127.0.0.1:{tcp.sockets[0].getsockname()[1]}"
        self._by_name[link.name], self._servers[link.name] = link, server
        return link.address


class Links:
    """All links of a run, seen from outside. A context manager; any thread."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._names: set[str] = set()
        self._process: subprocess.Popen[str]

    def __enter__(self) -> Links:
        self._directory.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "support.chaos.workload.links", str(self._directory)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def add(self, name: str, target: str) -> str:
        """A link to a target (`tcp:HOST:PORT`, `unix:PATH`, or `ready:FILE`, a ready file that says where); returns the
        address, of the same family, that leads there."""
        address = self._order("add", name, target=target)
        self._names.add(name)
        return address

    def remove(self, name: str) -> None:
        self._names.discard(name)
        self._order("remove", name)

    def known(self, name: str) -> bool:
        return name in self._names

    def cut(self, name: str) -> None:
        """Break connections off, and new ones too, until it is mended."""
        self._order("cut", name)

    def stall(self, name: str) -> None:
        """Nothing passes any more, and nobody is told."""
        self._order("stall", name)

    def slow(self, name: str, delay: float) -> None:
        """Every piece that passes waits for so many seconds."""
        self._order("slow", name, delay=delay)

    def mend(self, name: str) -> None:
        self._order("mend", name)

    def _order(self, op: str, name: str, **facts: object) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            self._process.stdin.write(json.dumps({"op": op, "name": name, **facts}) + "\n")
            self._process.stdin.flush()
            return str(json.loads(self._process.stdout.readline()))


async def _open(target: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if target.startswith("ready:"):
        url = json.loads(Path(target.removeprefix("ready:")).read_text(encoding="utf-8"))["http"]
        target = url.replace("http://", "tcp:")
    if target.startswith("unix:"):
        return await asyncio.open_unix_connection(target.removeprefix("unix:"))
    host, port = target.removeprefix("tcp:").rsplit(":", 1)
    return await asyncio.open_connection(host, int(port))


if __name__ == "__main__":
    live_no_longer_than_parent()
    asyncio.run(Carrier(Path(sys.argv[1])).run())
