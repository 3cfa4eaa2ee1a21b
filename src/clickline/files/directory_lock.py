"""One process for each directory: a lock that a cube server, an agent or transfer holds as long as it lives.

Two of a kind in one directory would delete each other's downloads and overwrite each other's state. The kernel lets go
of the lock when the process is gone, whichever way it went. The file stays, and says who held it last.
"""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress
from pathlib import Path

from clickline.errors import PeerError
from clickline.files.locks import open_lock_file, try_lock

_PATIENCE = 3.0
"""Seconds: one that was killed a moment ago may still be ending."""
_LOOK_EVERY = 0.05


class DirectoryLock:
    """Taken when it is made. Raises PeerError, which names the holder, if another process of the role has it."""

    def __init__(self, directory: Path, role: str, *, patience: float = _PATIENCE) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f".{role.replace(' ', '-')}.lock"
        self._descriptor = open_lock_file(path)
        try:
            self._take(patience, directory, role)
        except BaseException:
            os.close(self._descriptor)
            raise

    def release(self) -> None:
        """May be called again."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1

    def _take(self, patience: float, directory: Path, role: str) -> None:
        give_up = time.monotonic() + patience
        # Polled, since flock has no timeout; a successor is often started while the kernel still ends its predecessor.
        while not try_lock(self._descriptor):
            if time.monotonic() >= give_up:
                holder = os.pread(self._descriptor, 200, 0).decode("utf-8", "replace") or "another process"
                raise PeerError(
                    f"{directory}: {holder} is the {role} of this directory; stop it first, or use another directory"
                )
            time.sleep(_LOOK_EVERY)
        with suppress(OSError):  # where there is no room for it, a refusal says less
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
