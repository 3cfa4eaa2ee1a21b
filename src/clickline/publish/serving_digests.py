"""SHA-256 of the files that are served: computed once, in a thread, remembered as long as the file is the same.

A file is the same while its path, size, time and inode are. Whoever asks for a digest that is being computed waits for
the same computation. A request that will not wait that long goes on without; the next one finds it done.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor

from clickline.publish.serving_files import OpenFile

_CHUNK = 1 << 20
_THREADS = 1  # a file server that hashes on all cores would not serve
Identity = tuple[str, str]


class Digests:
    """For one event loop; remembers `most` files, the latest asked for."""

    def __init__(self, *, most: int = 65_536) -> None:
        self._known: OrderedDict[Identity, str] = OrderedDict()
        self._pending: dict[Identity, asyncio.Future[str]] = {}
        self._most = most
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="sha256")
        self._stopping = False
        self.computed = 0

    async def of(self, file: OpenFile, *, wait: float | None) -> str | None:
        """The digest; None if it takes longer than `wait` seconds (it goes on being computed), or the file shrank."""
        identity = _identity(file)
        if identity in self._known:
            self._known.move_to_end(identity)
            return self._known[identity]
        if identity not in self._pending:
            loop = asyncio.get_running_loop()
            # A descriptor of its own: the request may be over before the digest is.
            future = loop.run_in_executor(self._threads, self._compute, os.dup(file.descriptor), file.size)
            self._pending[identity] = future
            future.add_done_callback(lambda done: self._done(identity, done))
        try:
            return await asyncio.wait_for(asyncio.shield(self._pending[identity]), wait)
        except TimeoutError:
            return None
        except (OSError, EOFError):
            return None

    def remember(self, file: OpenFile, sha256: str) -> None:
        """What is known already, as of an upload that was hashed while it came in."""
        self._known[_identity(file)] = sha256
        while len(self._known) > self._most:
            self._known.popitem(last=False)

    def close(self) -> None:
        self._stopping = True
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _done(self, identity: Identity, done: asyncio.Future[str]) -> None:
        del self._pending[identity]
        if not done.cancelled() and done.exception() is None:
            self.computed += 1
            self._known[identity] = done.result()
            while len(self._known) > self._most:
                self._known.popitem(last=False)

    def _compute(self, descriptor: int, size: int) -> str:
        try:
            digest, at = hashlib.sha256(), 0
            while at < size:
                data = os.pread(descriptor, min(_CHUNK, size - at), at)
                if not data or self._stopping:
                    raise EOFError
                digest.update(data)
                at += len(data)
            return digest.hexdigest()
        finally:
            os.close(descriptor)


def _identity(file: OpenFile) -> Identity:
    return str(file.path), file.etag
