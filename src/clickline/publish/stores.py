"""Where versions are kept: a directory, or any place that fsspec reaches.

A directory gets what a file system promises: files are synced, a version appears by one rename, the donefile grows by
appending. Elsewhere a version's files are put in their place one by one, its manifest last, and the donefile is read
and written anew; until its line is there, no reader looks at the version. Beware: such stores have no real locks, so
two publishers there must not be started within the same instant (docs/publishing.md).
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fsspec

from clickline.config.environment import resolve
from clickline.digests import file_sha256
from clickline.durable import alive
from clickline.errors import VersionError

WRITING = ".writing-"
LOCK_WAIT = 600.0
"""Seconds that a publisher waits for another one."""
_STALE = 6 * 3600.0
"""Seconds after which a lock of another machine, where there are no real locks, is taken over."""
_KNOWN = ("file", "memory", "s3", "gs", "abfs", "hdfs", "webhdfs", "sftp", "http", "https")


@dataclass(frozen=True)
class Store:
    """A place for versions. Names are relative to it, with `/`; they come from us or were checked."""

    url: str
    """As the user wrote it."""
    system: Any = field(repr=False)
    root: str
    directory: Path | None
    """If it is a directory of this machine."""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """Values that no message may show."""

    def shown(self, name: str = "") -> str:
        """A path for messages."""
        return f"{self.url.rstrip('/')}/{name}" if name else self.url

    def exists(self, name: str = "") -> bool:
        with self._explained(name):
            self.system.invalidate_cache()
            return bool(self.system.exists(self._path(name)))

    def read(self, name: str, *, limit: int) -> bytes:
        """A small file. One that is larger than `limit` is refused without reading on."""
        with self._explained(name), self.system.open(self._path(name), "rb") as file:
            content: bytes = file.read(limit + 1)
        if len(content) > limit:
            raise VersionError(f"{self.shown(name)}: larger than {limit} bytes, which is the limit for such a file")
        return content

    def pieces(self, name: str, *, size: int = 1 << 20) -> Iterator[bytes]:
        """A file of any size, piece by piece."""
        with self._explained(name), self.system.open(self._path(name), "rb") as file:
            while piece := file.read(size):
                yield piece

    def names(self, folder: str = "") -> list[str]:
        """What lies directly in a folder, hidden things too; nothing if there is no such folder."""
        with self._explained(folder):
            self.system.invalidate_cache()
            path = self._path(folder)
            if not self.system.isdir(path):
                return []
            return sorted(entry.rstrip("/").rpartition("/")[2] for entry in self.system.ls(path, detail=False))

    def remove(self, folder: str) -> None:
        """A folder and all in it. That it is gone already is fine."""
        with self._explained(folder):
            if self.directory is not None:
                shutil.rmtree(self.directory / folder, ignore_errors=True)
            elif self.system.exists(self._path(folder)):
                self.system.rm(self._path(folder), recursive=True)

    def put(self, file: Path, name: str) -> None:
        """Copy a local file to its place, where there is no rename."""
        with self._explained(name):
            self.system.makedirs(self._path(name).rpartition("/")[0], exist_ok=True)
            self.system.put_file(str(file), self._path(name))

    def fetch(self, name: str, to: Path, *, limit: int) -> Path:
        """The file's path on this machine; copied to `to` unless it is here already, but no more than `limit` bytes."""
        if self.directory is not None:
            return self.directory / name
        if to.is_file():
            return to
        self._copy(name, to, limit=limit)
        return to

    def fetch_checked(self, name: str, to: Path, *, size: int, sha256: str) -> Path:
        """Like `fetch`; raises VersionError unless all bytes are those that this size and SHA-256 are of.

        Every byte is read once for it: while it is copied, or from the file that is here.
        """
        if self.directory is None and not to.is_file():
            path, seen = to, self._copy(name, to, limit=size)
        else:
            path, seen = self.fetch(name, to, limit=size), ""
        found = path.stat().st_size if path.is_file() else None
        if found != size:
            raise VersionError(
                f"{self.shown(name)}: {'not there' if found is None else f'{found} bytes'}; expected {size}"
            )
        with self._explained(name):
            seen = seen or file_sha256(path)
        if seen != sha256:
            raise VersionError(
                f"{self.shown(name)}: damaged: its SHA-256 is {seen[:12]}…, the manifest says {sha256[:12]}…; "
                "publish again, or copy the file from where it is sound"
            )
        return path

    def _copy(self, name: str, to: Path, *, limit: int) -> str:
        """Copy a file to this machine; its SHA-256, computed on the way."""
        size, digest = 0, hashlib.sha256()
        try:
            to.parent.mkdir(parents=True, exist_ok=True)
            with to.open("wb") as file:
                for piece in self.pieces(name):
                    file.write(piece)
                    digest.update(piece)
                    size += len(piece)
                    if size > limit:
                        raise VersionError(f"{self.shown(name)}: more than the {limit} bytes that were expected")
        except OSError as error:
            raise VersionError(f"{self.shown(name)}: cannot be copied to {to}: {error.strerror or error}") from error
        return digest.hexdigest()

    def write(self, name: str, content: bytes) -> None:
        """A whole small file, where there is no appending."""
        with self._explained(name):
            self.system.makedirs(self.root, exist_ok=True)
            self.system.pipe_file(self._path(name), content)

    @contextmanager
    def locked(self, what: str, *, wait: float = LOCK_WAIT, say: Callable[[str], None] | None = None) -> Iterator[None]:
        """Alone with `what` of this store. Waits for others, and says so; a dead process holds nothing."""
        attempt = self._lock_file if self.directory is not None else self._lock_object
        name = f".{what}.lock"
        give_up = time.monotonic() + wait
        told = False
        while (release := attempt(name)) is None:
            if time.monotonic() > give_up:
                raise VersionError(f"{self.shown(name)}: held by {self._holder(name)} for more than {wait:.0f} s")
            if say is not None and not told:
                say(f"waiting for {self._holder(name)}")
                told = True
            time.sleep(0.05)
        try:
            yield
        finally:
            release()

    def _lock_file(self, name: str) -> Callable[[], None] | None:
        assert self.directory is not None  # noqa: S101  (`locked` asks)
        with self._explained(name):
            self.directory.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.directory / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        with suppress(OSError):  # who holds it is told to whoever waits, where there is room for it
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, _ourselves(), 0)
        return lambda: os.close(descriptor)

    def _lock_object(self, name: str) -> Callable[[], None] | None:
        path = self._path(name)
        with self._explained(name):
            self.system.invalidate_cache()
            if self.system.exists(path) and not _abandoned(self._holding(name)):
                return None
            self.system.makedirs(self.root, exist_ok=True)
            self.system.pipe_file(path, mine := _ourselves())
            if self.system.cat_file(path) != mine:  # somebody was faster
                return None
        return lambda: self.system.rm_file(path)

    def _holder(self, name: str) -> str:
        holding = self._holding(name)
        return f"process {holding.get('pid', '?')} on {holding.get('host', '?')}"

    def _holding(self, name: str) -> dict[str, Any]:
        try:
            found = json.loads(self.read(name, limit=4096))
        except (VersionError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def _path(self, name: str) -> str:
        return f"{self.root}/{name}" if name else self.root

    @contextmanager
    def _explained(self, name: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            raise VersionError(f"{self.shown(name)}: not there") from error
        except (OSError, NotImplementedError) as error:
            raise VersionError(f"{self.shown(name)}: {self._scrubbed(error)}") from error
        except Exception as error:
            # Remote file systems raise what their clients raise; everything else that passes here is a bug of ours.
            if type(error).__module__.partition(".")[0] in (
                "aiohttp",
                "botocore",
                "aiobotocore",
                "requests",
                "urllib3",
            ):
                raise VersionError(f"{self.shown(name)}: {self._scrubbed(error)}") from error
            raise

    def _scrubbed(self, error: Exception) -> str:
        text = f"{type(error).__name__}: {error}"
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return text


def open_store(url: str | Path, *, options: Mapping[str, str] | None = None, must_exist: bool = False) -> Store:
    """A store by path or URL. `options` are fsspec's; secrets in them as ${env:NAME}."""
    text = str(url)
    if "://" not in text and "::" not in text:
        path = Path(text).expanduser().absolute()
        store = Store(text, fsspec.filesystem("file"), path.as_posix(), path)
    else:
        store = _remote(text, options or {})
    if must_exist and not store.exists():
        raise VersionError(f"{text}: there is no such store; `clickline publish RUN --to {text}` makes one")
    if store.directory is not None and store.directory.exists() and not store.directory.is_dir():
        raise VersionError(f"{text}: a file, not a directory; versions are kept in a directory or at a URL")
    return store


def _remote(url: str, options: Mapping[str, str]) -> Store:
    protocol = url.partition("://")[0].rpartition("::")[2]
    resolved = {} if protocol in ("file", "local") else {key: resolve(value) for key, value in options.items()}
    secrets = tuple(value for key, value in resolved.items() if value and value != options[key])
    try:
        system, root = fsspec.core.url_to_fs(url, **resolved)
    except ImportError as error:
        raise VersionError(f"{url}: needs a package that is not installed: {error}") from error
    except ValueError as error:
        raise VersionError(f"{url}: {error}; known: {', '.join(_KNOWN)}, and others of fsspec") from error
    local = Path(root) if protocol in ("file", "local") else None
    return Store(url, system, root.rstrip("/"), local, secrets)


def _ourselves() -> bytes:
    return json.dumps({"host": socket.gethostname(), "pid": os.getpid(), "time": time.time()}).encode()


def _abandoned(holding: Mapping[str, Any]) -> bool:
    """Whether the process that wrote a lock cannot be holding it any more."""
    if holding.get("host") == socket.gethostname() and isinstance(holding.get("pid"), int):
        return holding["pid"] != os.getpid() and not alive(holding["pid"])
    return time.time() - float(holding.get("time", 0)) > _STALE
