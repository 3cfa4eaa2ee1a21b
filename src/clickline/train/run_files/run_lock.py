"""The right to write to a run's directory, which one process has at a time.

`.run.lock` is locked with flock for as long as the process lives that trains or coordinates there: the kernel lets go
of it when that process ends, whichever way. A second process is refused before it has changed anything.

Between hosts, flock reaches as far as the file system takes it: Linux's NFS client turns it into a lock at the server,
unless the mount says `nolock`, `local_lock=flock` or `local_lock=all`. Where it does not reach, or where the file
was removed, a second process can take the directory from the first. Therefore the file also names its holder,
with an epoch that grows by one each time, and `check` raises ReplacedError in the process that is not the holder any
more. It is called before every change: to `coordinator.json`, which carries the epoch as well, to the journal, and
before a checkpoint becomes visible or is removed. Between that look and the change there remain some microseconds; only
a lock closes them.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import secrets
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from clickline.errors import CheckpointError, PeerError, ReplacedError
from clickline.files.atomic import remove_unfinished, sync_directory
from clickline.files.locks import open_lock_file, try_lock
from clickline.train.checkpoints import checkpoint_directories

log = logging.getLogger("clickline.run")
FILE = ".run.lock"
EPOCH = "writer_epoch"
COORDINATOR = "coordinator.json"
VARIABLE = "CLICKLINE_RUN_LOCK"
"""In the environment of rank 0, whose launcher holds the lock for it: the nonce of the holder."""
_LIMIT = 1 << 12
_DYING = 1.0
"""Seconds that a killed holder may need to be gone: the kernel frees its memory before it closes its files."""
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)


class RunLock:
    """A run's directory, held by this process. A context manager, or call `release`."""

    def __init__(self, directory: Path, *, role: str) -> None:
        """Take the directory, which is made if it is not there. Raises PeerError if another process holds it."""
        self.directory = directory
        self.url: str | None = None
        """Where the run is kept, if this is the local copy of one at a URL."""
        self._revoked: str | None = None
        self._path = directory / FILE
        self._descriptor = -1
        # Rank 0 of a collective run writes for its launcher, which holds the lock and has passed on its nonce.
        nonce = os.environ.get(VARIABLE, "")
        try:
            directory.mkdir(parents=True, exist_ok=True)
            if nonce and _holder(self._path).get("nonce") == nonce:
                self._content = self._path.read_bytes()  # our launcher holds it, and we end with our launcher
                self._holder = _holder(self._path)
                return
            try:
                self._lock()
                self._claim(role)
            except BaseException:
                self.release()
                raise
        except OSError as error:
            raise CheckpointError(f"{self._path}: cannot be written: {error}") from error

    @property
    def epoch(self) -> int:
        """Grows with every process that takes the directory."""
        return _epoch(self._holder)

    @property
    def nonce(self) -> str:
        """For a child that writes in this process's stead, in `VARIABLE`."""
        return str(self._holder["nonce"])

    @property
    def lent(self) -> bool:
        """Whether it is the launcher of this process that holds the directory."""
        return os.environ.get(VARIABLE, "") == self.nonce

    def advance(self, epoch: int) -> None:
        """Count on from an epoch of another machine, which has had its own copy of this directory."""
        if epoch >= self.epoch:
            self._holder = {**self._holder, EPOCH: epoch + 1}
            self._content = json.dumps(self._holder).encode() + b"\n"
            try:
                self._write(self._content)
            except OSError as error:
                raise CheckpointError(f"{self._path}: cannot be written: {error}") from error

    def revoke(self, reason: str) -> None:
        """Let `check` raise from now on: the run that this directory is a copy of was taken over elsewhere."""
        self._revoked = reason
        # Rank 0, which writes in the stead of its launcher, reads the file.
        elsewhere = {**self._holder, EPOCH: self.epoch + 1, "role": "a process on another machine", "nonce": ""}
        with suppress(OSError):
            self._write(json.dumps(elsewhere).encode() + b"\n")

    def check(self) -> None:
        """Raise ReplacedError if another process has taken the directory since."""
        if self._revoked is not None:
            raise ReplacedError(self._revoked)
        try:
            with self._path.open("rb") as file:  # to open it is what makes an NFS client ask its server
                content = file.read(_LIMIT)
        except FileNotFoundError:
            return  # removed, but no other process has taken the directory
        if content != self._content:
            raise ReplacedError(
                f"{self.directory} was taken over by {_described(_holder(self._path))}; this process was replaced and "
                "has changed nothing since"
            )

    def release(self) -> None:
        """Let the next one in. The file stays: it knows the epoch, and to remove a locked file is never safe."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> RunLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def _lock(self) -> None:
        give_up = time.monotonic() + _DYING
        while True:
            # Opened again for each attempt: the path may name another file than the one that was tried before.
            self.release()
            self._descriptor = open_lock_file(self._path)
            try:
                # The file may have been removed before we had its lock, which then is worth nothing.
                if try_lock(self._descriptor) and os.path.samestat(os.fstat(self._descriptor), self._path.stat()):
                    return
            except FileNotFoundError:
                pass
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    raise
                log.warning("%s cannot be locked (%s): a second run in it would take it over", self._path, error)
                return
            if time.monotonic() > give_up:
                raise PeerError(
                    f"{self.directory} is in use by {_described(_holder(self._path))}; wait until it is done, stop it, "
                    "or train elsewhere with --set name=…"
                )
            time.sleep(0.02)

    def _write(self, content: bytes) -> None:
        # In place, since the lock is on this very file. If a crash tears it, it names no holder, and need not.
        os.pwrite(self._descriptor, content, 0)
        os.ftruncate(self._descriptor, len(content))
        os.fsync(self._descriptor)

    def _claim(self, role: str) -> None:
        # The epoch grows even if the lock file was removed: the coordinator's record carries it as well.
        before = [_epoch(_holder(self._path)), _epoch(_object(self.directory / COORDINATOR))]
        self._holder = {
            EPOCH: max(before) + 1,
            "role": role,
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "since": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "nonce": secrets.token_hex(8),
        }
        self._content = json.dumps(self._holder).encode() + b"\n"
        self._write(self._content)
        sync_directory(self.directory)
        # Only after the claim is on the disk: where locks do not reach, an overtaken holder may still be writing. From
        # the claim on, its `check` fails before it makes anything visible.
        remove_unfinished(self.directory)
        checkpoint_directories.recover(self.directory / "checkpoints")


def nonce_in(directory: Path) -> str:
    """The nonce of whoever has taken the directory last; empty if there is none, or it cannot be read."""
    return str(_holder(directory / FILE).get("nonce", ""))


def _object(path: Path) -> Mapping[str, object]:
    """The JSON object in a file; an empty one if it cannot be read."""
    with suppress(OSError, ValueError, RecursionError):
        content = json.loads(path.read_bytes())
        if isinstance(content, dict):
            return content
    return {}


def _holder(path: Path) -> Mapping[str, object]:
    """What the lock file says of its holder."""
    with suppress(OSError):
        if path.stat().st_size <= _LIMIT:
            return _object(path)
    return {}


def _epoch(content: Mapping[str, object]) -> int:
    epoch = content.get(EPOCH)
    return epoch if isinstance(epoch, int) and epoch > 0 else 0


def _described(holder: Mapping[str, object]) -> str:
    if "pid" not in holder:
        return "a process that has not written its name yet"
    parts = {key: str(holder.get(key, "?"))[:100] for key in ("role", "pid", "host", "since")}
    return "{role}, process {pid} on host {host}, since {since}".format(**parts)
