"""Answers that are files: headers, ranges, and a body that is read ahead of what is being sent.

A megabyte at a time: the next is read in a thread while the one before is on its way, so that neither disk nor network
waits for the other, and nothing else on the event loop waits for either.
"""

from __future__ import annotations

import asyncio
import logging
import mimetypes
import secrets
from collections.abc import AsyncGenerator
from concurrent.futures import Executor
from contextlib import aclosing
from http import HTTPStatus

from starlette.datastructures import MutableHeaders
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from clickline.fileserver.ranges import Range, http_date, multipart
from clickline.fileserver.served_directory import OpenFile

_CHUNK = 1 << 20
log = logging.getLogger(__name__)


class FileResponse(Response):
    """A response with a file, which it closes once it is sent or the client is gone."""

    def __init__(self, file: OpenFile, threads: Executor, *, ranges: list[Range] | None, sha256: str | None) -> None:
        self.file, self._threads = file, threads
        self.status_code = HTTPStatus.OK if ranges is None else HTTPStatus.PARTIAL_CONTENT
        self.background = None
        kind = mimetypes.guess_type(file.path.name)[0] or "application/octet-stream"
        self._parts: list[bytes | Range] = [(0, file.size)] if ranges is None else list(ranges)
        self.raw_headers = []
        headers = MutableHeaders(raw=self.raw_headers)
        headers["Content-Type"] = kind
        if ranges is not None and len(ranges) == 1:
            headers["Content-Range"] = f"bytes {ranges[0][0]}-{ranges[0][1] - 1}/{file.size}"
        elif ranges is not None:
            boundary = secrets.token_hex(16)
            heads, tail = multipart(ranges, file.size, kind=kind, boundary=boundary)
            self._parts = [part for pair in zip(heads, ranges, strict=True) for part in pair] + [tail]
            headers["Content-Type"] = f"multipart/byteranges; boundary={boundary}"
        sizes = (len(part) if isinstance(part, bytes) else part[1] - part[0] for part in self._parts)
        headers["Content-Length"] = str(sum(sizes))
        for name, value in describing(file, sha256).items():
            headers[name] = value

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        gone = asyncio.ensure_future(_disconnected(receive))
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            if scope["method"] != "HEAD":
                async with aclosing(self._chunks()) as chunks:
                    async for data in chunks:
                        await send({"type": "http.response.body", "body": data, "more_body": True})
                        if gone.done():  # sending to a client that is gone does not fail
                            return
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except EOFError as error:
            # The length is promised: all that is left is to break the connection, which the client will notice.
            log.error("%s", error)
        finally:
            gone.cancel()
            self.file.close()

    async def _chunks(self) -> AsyncGenerator[bytes, None]:
        """The body in pieces. While one is being sent, a thread reads the next."""
        loop = asyncio.get_running_loop()
        pieces = [
            (begin, min(begin + _CHUNK, part[1]))
            for part in self._parts
            if not isinstance(part, bytes)
            for begin in range(part[0], part[1], _CHUNK)
        ]
        if len(pieces) == 1 and len(self._parts) == 1:  # most files of most directories: one hop, nothing to overlap
            yield await loop.run_in_executor(self._threads, self._read, *pieces[0])
            return
        # One read is always ahead: more would hold memory, since a slow client takes them no sooner.
        ahead = iter(pieces)
        following = next(ahead, None)
        reading = None if following is None else loop.run_in_executor(self._threads, self._read, *following)
        try:
            for part in self._parts:
                if isinstance(part, bytes):
                    yield part
                    continue
                for _ in range(part[0], part[1], _CHUNK):
                    assert reading is not None  # noqa: S101
                    data = await reading
                    following = next(ahead, None)
                    reading = None if following is None else loop.run_in_executor(self._threads, self._read, *following)
                    yield data
        finally:
            if reading is not None and not reading.done():
                # The caller closes the file next: a read that is still running could then hit a reused descriptor.
                await asyncio.wait([reading])

    def _read(self, begin: int, end: int) -> bytes:
        data = self.file.read(begin, end - begin)
        while len(data) < end - begin:
            more = self.file.read(begin + len(data), end - begin - len(data))
            if not more:
                raise EOFError(f"'{self.file.path}' was cut while it was sent")
            data += more
        return data


def describing(file: OpenFile, sha256: str | None) -> dict[str, str]:
    """Headers that do not depend on which part of the file is sent."""
    headers = {"ETag": file.etag, "Last-Modified": http_date(file.modified_ns), "Accept-Ranges": "bytes"}
    headers["X-Content-Type-Options"] = "nosniff"
    return headers if sha256 is None else headers | {"X-Checksum-SHA256": sha256}


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
