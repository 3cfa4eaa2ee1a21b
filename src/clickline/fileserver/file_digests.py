"""SHA-256 of the files that are served: computed once, in a thread, remembered as long as the file is the same.

A file is the same while its path, size, time and inode are. Requests for a digest that is being computed wait for the
same computation. A request that will not wait that long is answered without; the next one finds it done.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import threading
from collections import OrderedDict
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

from clickline.fileserver.served_directory import OpenFile

_CHUNK = 1 << 20
_THREADS = 1  # a file server that hashes on all cores would not serve
_MOST_PENDING = 256  # each holds a file open
Identity = tuple[str, str]


class Digests:
    """Remembers `most` files, the latest asked for. Any thread, any event loop."""

    def __init__(self, *, most: int = 65_536) -> None:
        self._known: OrderedDict[Identity, str] = OrderedDict()
        self._pending: dict[Identity, Future[str]] = {}
        self._lock = threading.Lock()
        self._most = most
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="sha256")
        self._stopping = False
        self.computed = 0

    async def of(self, file: OpenFile, *, wait: float | None) -> str | None:
        """The digest; None if it takes longer than `wait` seconds (it goes on being computed), or the file shrank."""
        identity = _identity(file)
        with self._lock:
            if identity in self._known:
                self._known.move_to_end(identity)
                return self._known[identity]
            if self._stopping or (identity not in self._pending and len(self._pending) >= _MOST_PENDING):
                return None
            if identity not in self._pending:
                # A descriptor of its own: the request may be over before the digest is.
                descriptor = os.dup(file.descriptor)
                self._pending[identity] = self._threads.submit(self._compute, identity, descriptor, file.size)
            pending = self._pending[identity]
        # Not asyncio.wrap_future: a request that times out would cancel the computation that other requests wait for.
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        pending.add_done_callback(lambda _: _wake(loop, waiter))
        try:
            await asyncio.wait_for(waiter, wait)
            return pending.result(0)
        except (TimeoutError, OSError, EOFError):
            return None

    def remember(self, file: OpenFile, sha256: str) -> None:
        """What is known already, as of an upload that was hashed while it came in."""
        with self._lock:
            self._known[_identity(file)] = sha256
            while len(self._known) > self._most:
                self._known.popitem(last=False)

    def close(self) -> None:
        with self._lock:
            self._stopping = True
        self._threads.shutdown(wait=True)

    def _compute(self, identity: Identity, descriptor: int, size: int) -> str:
        try:
            digest, at = hashlib.sha256(), 0
            while at < size:
                data = os.pread(descriptor, min(_CHUNK, size - at), at)
                # `close` waits for this thread, so the digest of a large file is given up when the server stops.
                if not data or self._stopping:
                    raise EOFError
                digest.update(data)
                at += len(data)
            with self._lock:
                self.computed += 1
                # Known before it stops being pending: a request in between finds one of the two and starts no second
                # computation.
                self._known[identity] = digest.hexdigest()
                while len(self._known) > self._most:
                    self._known.popitem(last=False)
            return digest.hexdigest()
        finally:
            os.close(descriptor)
            with self._lock:
                del self._pending[identity]


def _wake(loop: asyncio.AbstractEventLoop, waiter: asyncio.Future[None]) -> None:
    """Wake a waiter from the thread that computed; its loop may be closed by then."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(lambda: None if waiter.done() else waiter.set_result(None))


def _identity(file: OpenFile) -> Identity:
    return str(file.path), file.etag
