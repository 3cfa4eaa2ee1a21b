"""The file server: a directory over HTTP. Reading needs no token, writing does.

It is an ASGI application, to be mounted in another, and runs by itself as a context manager or until it is told to
stop. docs/file-server.md has its requests and answers.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar
from urllib.parse import quote

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from clickline.errors import JobError
from clickline.fileserver.file_digests import Digests
from clickline.fileserver.file_metrics import FileMetrics
from clickline.fileserver.file_response import FileResponse, describing
from clickline.fileserver.listing import as_html, as_json
from clickline.fileserver.ranges import NoSuchRange, range_applies, unchanged, wanted
from clickline.fileserver.served_directory import NotServed, OpenFile, ServedDirectory
from clickline.fileserver.uploads import Upload, UploadRefused, clean
from clickline.net.http_connections import HttpLimits
from clickline.net.http_server import LARGEST_HEADERS, HttpServer
from clickline.net.tokens import shows_token

UPLOAD_LIMIT = 64 << 30
_SHORTEST_TOKEN = 16
_LONGEST_URL = 8192
_THREADS = 8
_GATHERED = 1 << 20  # of an upload, before it is written
T = TypeVar("T")


class FileServer(HttpServer):
    """`with FileServer(directory) as server: server.address`, or `Mount("/files", app=FileServer(directory))`.

    Without a token nothing can be uploaded. Made with one, it removes what uploads of a dead process have left.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        listen: str = "127.0.0.1:0",
        token: bytes | None = None,
        upload_limit: int = UPLOAD_LIMIT,
        most_uploads: int = 8,
        upload_idle: float = 60.0,
        checksum_wait: float = 0.25,
        limits: HttpLimits | None = None,
    ) -> None:
        super().__init__(listen=listen, limits=limits)
        if token is not None and len(token) < _SHORTEST_TOKEN:
            raise JobError(f"the token has fewer than {_SHORTEST_TOKEN} characters; take `openssl rand -hex 32`")
        self.root = ServedDirectory(root)
        self._token, self._limit, self._most_uploads = token, upload_limit, most_uploads
        self._idle, self._checksum_wait = upload_idle, checksum_wait
        self._digests = Digests()
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="files")
        self._metrics = FileMetrics()
        if token is not None:
            clean(self.root)
        routes = [
            Route("/health", self._health),
            Route("/metrics", self._show_metrics),
            Route("/{path:path}", self._answer, methods=["GET", "PUT"]),
        ]
        self._app = Starlette(routes=routes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        start = time.perf_counter()

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._metrics.answered(scope["method"], message["status"], time.perf_counter() - start)
            else:
                self._metrics.sent.inc(0 if scope["method"] == "HEAD" else len(message.get("body", b"")))
            await send(message)

        if len(scope.get("raw_path") or b"") + len(scope.get("query_string", b"")) > _LONGEST_URL:
            await _refusal(414, f"the URL has more than {_LONGEST_URL} bytes")(scope, receive, counted)
        elif sum(len(name) + len(value) for name, value in scope["headers"]) > LARGEST_HEADERS:
            # The HTTP server below only counts headers that come in several pieces.
            await _refusal(431, f"the headers have more than {LARGEST_HEADERS} bytes")(scope, receive, counted)
        else:
            await self._app(scope, receive, counted)

    def remember(self, path: str, sha256: str) -> None:
        """Remember the digest of a file; otherwise the first request for it has to wait for the computation."""
        if (file := self.root.open(path)) is not None:
            self._digests.remember(file, sha256)
            file.close()

    def close(self) -> None:
        """Stop, if it runs by itself; end its threads. What is under way is given a few seconds."""
        # The server first: requests that are under way use both thread pools.
        super().close()
        self._digests.close()
        self._threads.shutdown(wait=True, cancel_futures=True)

    async def _health(self, _: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def _show_metrics(self, _: Request) -> Response:
        self._metrics.digests.set(self._digests.computed)
        return Response(generate_latest(self._metrics.registry), media_type=CONTENT_TYPE_LATEST)

    async def _answer(self, request: Request) -> Response:
        path = request.path_params["path"]
        try:
            return await (self._put(request, path) if request.method == "PUT" else self._get(request, path))
        except NotServed:
            return _refusal(404, "there is no such file")

    async def _get(self, request: Request, path: str) -> Response:
        file = await self._in_thread(self.root.open, path)
        if file is None:
            return await self._list(request, path)
        # A FileResponse closes the file itself, long after this has returned; any other answer leaves it to us.
        handed_over = False
        try:
            response = await self._respond(request, file)
            handed_over = isinstance(response, FileResponse)
            return response
        finally:
            if not handed_over:
                file.close()

    async def _respond(self, request: Request, file: OpenFile) -> Response:
        asked = request.headers
        since = asked.get("if-modified-since")
        if unchanged(file.etag, file.modified_ns, if_none_match=asked.get("if-none-match"), if_modified_since=since):
            return Response(status_code=304, headers=describing(file, None))
        applies = range_applies(file.etag, file.modified_ns, if_range=asked.get("if-range"))
        try:
            ranges = wanted(asked.get("range") if applies else None, file.size)
        except NoSuchRange:
            return _refusal(416, "the file has no such range", {"Content-Range": f"bytes */{file.size}"})
        # A HEAD request wants all headers, the digest too; a GET should not wait for it for long.
        wait = None if request.method == "HEAD" else self._checksum_wait
        sha256 = await self._digests.of(file, wait=wait)
        return FileResponse(file, self._threads, ranges=ranges, sha256=sha256)

    async def _list(self, request: Request, path: str) -> Response:
        wanted_format, accepted = request.query_params.get("format"), request.headers.get("accept", "")
        is_json = wanted_format == "json" or (wanted_format is None and "application/json" in accepted)
        if path and not path.endswith("/") and not is_json:  # links of the page are relative
            return RedirectResponse(f"./{quote(path.rpartition('/')[2])}/", status_code=307)
        entries = await self._in_thread(self.root.entries, path)
        if is_json:
            return JSONResponse(as_json(path, entries), headers={"Vary": "Accept"})
        return HTMLResponse(as_html(path, entries), headers={"Vary": "Accept", "X-Content-Type-Options": "nosniff"})

    async def _put(self, request: Request, path: str) -> Response:
        if self._token is None:
            return _refusal(403, "this server takes no uploads: it was started without a token")
        if not shows_token(request.headers.get("authorization", "").encode("latin-1"), self._token):
            return _refusal(
                401, "uploads need the header 'Authorization: Bearer TOKEN'", {"WWW-Authenticate": "Bearer"}
            )
        # A body without a length is limited while it comes in (`Upload.write`). More than 20 digits are not converted:
        # int() raises an error of its own for very long texts.
        announced = request.headers.get("content-length", "0")
        if not announced.isascii() or not announced.isdigit() or len(announced) > 20 or int(announced) > self._limit:
            return _refusal(413, f"the file is larger than {self._limit} bytes, the limit of this server")
        # There is no await between this check and the count, so requests on one event loop cannot pass it together.
        if self._metrics.under_way >= self._most_uploads:
            return _refusal(503, f"{self._most_uploads} uploads are under way; try again", {"Retry-After": "1"})
        with self._metrics.upload():
            try:
                return await self._take(request, path)
            except UploadRefused as refused:
                return _refusal(refused.status, str(refused))
            except TimeoutError:
                return _refusal(408, f"nothing came for {self._idle:g} seconds")
            except OSError as error:
                return _refusal(507, f"the file cannot be stored: {error.strerror}")

    async def _take(self, request: Request, path: str) -> Response:
        upload = await self._in_thread(partial(Upload, self.root, path, limit=self._limit))
        try:
            await self._receive(request, upload)
            expected = request.headers.get("x-checksum-sha256")
            file, sha256, is_new = await self._in_thread(partial(upload.finish, expected=expected))
        except ClientDisconnect:
            raise UploadRefused(400, "the connection ended before the file did") from None
        finally:
            upload.drop()
        self._digests.remember(file, sha256)
        file.close()
        stored = {"path": "/" + path, "bytes": file.size, "sha256": sha256, "etag": file.etag}
        return JSONResponse(stored, status_code=201 if is_new else 200, headers={"ETag": file.etag})

    async def _receive(self, request: Request, upload: Upload) -> None:
        gathered, size = [], 0
        body = request.stream()
        while True:
            # The limit is on silence and not on the upload, which may take hours.
            async with asyncio.timeout(self._idle):
                data = await anext(body, None)
            if data:
                gathered.append(data)
                size += len(data)
                self._metrics.received.inc(len(data))
            # Pieces from the network are small: gathered, many of them share one hop to a thread.
            if size >= _GATHERED or data is None:
                await self._in_thread(upload.write, b"".join(gathered))
                gathered, size = [], 0
            if data is None:
                return

    async def _in_thread(self, function: Callable[..., T], *arguments: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, function, *arguments)


def _refusal(status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    # The rest of the body is not read, so the connection cannot be used again.
    closing = {"Connection": "close"} if status in (401, 403, 408, 413, 414, 431, 503) else {}
    return PlainTextResponse(message + "\n", status_code=status, headers={**(headers or {}), **closing})
