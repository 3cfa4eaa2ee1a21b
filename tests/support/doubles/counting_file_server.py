"""A file server that counts what it sends, by file, and can stop in the middle of one."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from pathlib import Path

from starlette.types import Message, Receive, Scope, Send

from clickline.fileserver.file_server import FileServer


class CountingFiles(FileServer):
    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.sent: Counter[str] = Counter()
        """Bytes of bodies by path, without the slash before it."""
        self.holding = threading.Event()
        """Set while an answer waits in its middle."""
        self._held = ""
        self._go_on = threading.Event()

    def hold(self, name: str) -> None:
        """Send half of the next answer about a file of this name, and wait for `let_go`."""
        self._held = name
        self._go_on.clear()
        self.holding.clear()

    def let_go(self) -> None:
        self._held = ""
        self._go_on.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "").lstrip("/")

        async def counted(message: Message) -> None:
            body = message.get("body", b"")
            if scope["method"] == "GET" and message["type"] == "http.response.body" and body:
                self.sent[path] += len(body)
                if self._held and path.endswith(self._held):
                    await send({**message, "body": body[: len(body) // 2], "more_body": True})
                    self.holding.set()
                    while not self._go_on.is_set():
                        await asyncio.sleep(0.01)
                    message = {**message, "body": body[len(body) // 2 :]}
            await send(message)

        await super().__call__(scope, receive, counted)
