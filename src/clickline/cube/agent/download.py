"""Download of one file over HTTP: resumed where it broke off, at a bounded rate, believed only with the right hashes.

What has come so far lies in `<name>.part`, with the hash that is expected beside it: a part of another file is thrown
away. Beware: the server is not trusted with sizes. More than was announced, or than is allowed, ends the download.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import httpx

from clickline.errors import PeerError, VersionError
from clickline.files.digests import file_hashes
from clickline.files.failpoints import reach

_BLOCK = 1 << 18
_SPARE = 16 << 20
"""Bytes that stay free on the disk."""
_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18})")
_TIMEOUT = httpx.Timeout(30.0, connect=5.0)


class DamagedFileError(VersionError):
    """Raised when all of a file has come and its hash is not the expected one."""


@dataclass(frozen=True)
class FileHashes:
    """Size and hashes of a file on disk."""

    bytes: int
    sha256: str
    md5: str = ""


@dataclass(frozen=True)
class ExpectedHashes:
    """What a file's hashes must be; at least one of them is known."""

    sha256: str = ""
    md5: str = ""


@dataclass(frozen=True)
class DownloadLimits:
    """Limits of a download: rate, size and time."""

    rate: float = 0.0
    """Bytes per second; 0: as fast as it goes."""
    largest: int = 1 << 40
    seconds: float = 3600.0


def web_client() -> httpx.Client:
    """Proxy settings of the environment have no influence, redirects are not followed."""
    return httpx.Client(timeout=_TIMEOUT, trust_env=False)


def download(
    client: httpx.Client, url: str, part: Path, *, expected: ExpectedHashes, limits: DownloadLimits = DownloadLimits()
) -> FileHashes:
    """Bring `part` to its full length and check it. The caller gives it its name."""
    if not expected.sha256 and not expected.md5:
        raise VersionError(f"{url}: neither its SHA-256 nor its MD5 is known; it cannot be checked")
    # A part may be resumed only if it is of the same file, and the file is known by its hashes.
    note = part.with_name(f"{part.name}.of")
    mark = f"{expected.sha256} {expected.md5}"
    if part.exists() and (not note.exists() or note.read_text(encoding="utf-8") != mark):
        part.unlink()
    # After the removal of a foreign part: a crash in between never leaves a part with the mark of another file.
    note.write_text(mark, encoding="utf-8")
    reach("agent.download-begun")
    try:
        _fetch(client, url, part, limits)
    except httpx.HTTPError as error:
        raise PeerError(f"{url}: {type(error).__name__}: {error}") from None
    except OSError as error:
        raise PeerError(f"{part}: {error.strerror or error}") from None
    hashes = _hashes(part, md5=bool(expected.md5))
    for name in ("sha256", "md5"):
        wanted, actual = getattr(expected, name), getattr(hashes, name)
        # A damaged part must go: resuming it could never lead to the right hash.
        if wanted and actual != wanted:
            part.unlink()
            raise DamagedFileError(f"{url}: damaged: its {name} is {actual}, {wanted} was expected")
    note.unlink()
    return hashes


def _fetch(client: httpx.Client, url: str, part: Path, limits: DownloadLimits) -> None:
    have = part.stat().st_size if part.exists() else 0
    # Ranges and lengths count the bytes of the file itself, so the server must not compress.
    headers = {"Range": f"bytes={have}-", "Accept-Encoding": "identity"} if have else {"Accept-Encoding": "identity"}
    with client.stream("GET", url, headers=headers) as answer:
        if answer.status_code == 416:  # all of it is here, or more: the hash decides
            return
        if answer.status_code not in (200, 206):
            raise PeerError(f"{url}: HTTP {answer.status_code}")
        total = _total(answer, url)
        # A server that does not know ranges sends the whole file: then the part is overwritten from the start.
        start = have if answer.status_code == 206 else 0
        _check_room(part, total, start, limits, url)
        pace = _Pace(limits.rate)
        # The client's timeout is for each read; a server that sends a byte now and then is stopped by this deadline.
        give_up = time.monotonic() + limits.seconds
        with part.open("r+b" if part.exists() else "wb") as file:
            file.truncate(start)
            file.seek(start)
            size, half = start, start + (total - start) // 2
            for piece in answer.iter_raw(_BLOCK):
                file.write(piece)
                before, size = size, size + len(piece)
                if size > total:
                    raise PeerError(f"{url}: sends more than the {total} bytes that it announced")
                if before < half <= size:
                    file.flush()
                    reach("agent.download-half")
                if time.monotonic() > give_up:
                    raise PeerError(
                        f"{url}: {size} of {total} bytes within {limits.seconds:g} s; it is resumed next time"
                    )
                pace.spend(len(piece))
            file.flush()
            # The caller renames it: after a loss of power, a file that has its name must have its bytes.
            os.fsync(file.fileno())
    if size != total:
        raise PeerError(f"{url}: broke off after {size} of {total} bytes")


def _total(answer: httpx.Response, url: str) -> int:
    if answer.status_code == 206:
        content_range = _RANGE.fullmatch(answer.headers.get("content-range", ""))
        # Bytes of another range would be written at the wrong offset.
        if content_range is None or not answer.request.headers["range"].startswith(f"bytes={content_range[1]}-"):
            raise PeerError(f"{url}: answers another range than was requested")
        return int(content_range[3])
    length = answer.headers.get("content-length", "")
    if not length.isdigit():
        raise PeerError(f"{url}: has no Content-Length")
    return int(length)


def _check_room(part: Path, total: int, start: int, limits: DownloadLimits, url: str) -> None:
    if total > limits.largest:
        raise VersionError(f"{url}: has {total} bytes; at most {limits.largest} are accepted")
    free = shutil.disk_usage(part.parent).free
    if total - start > free - _SPARE:
        raise VersionError(
            f"{url}: {total - start} bytes are to come, {part.parent} has room for {max(0, free - _SPARE)}"
        )


def _hashes(path: Path, *, md5: bool) -> FileHashes:
    size, hashes = file_hashes(path, "sha256", *(["md5"] if md5 else []))
    return FileHashes(size, *hashes)


def same_file(path: Path, expected: ExpectedHashes) -> bool:
    """Whether a file has the expected hashes."""
    hashes = _hashes(path, md5=bool(expected.md5))
    return all(
        not getattr(expected, name) or getattr(hashes, name) == getattr(expected, name) for name in ("sha256", "md5")
    )


class _Pace:
    """Delays a download so that it is no faster than the rate, on average."""

    def __init__(self, rate: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._clock = rate, clock
        self._due = clock()

    def spend(self, size: int) -> None:
        if self._rate > 0:
            now = self._clock()
            # At most a quarter of a second of unused rate is made up for, so that a pause is not followed by a burst.
            self._due = max(self._due, now - 0.25) + size / self._rate
            if self._due > now:
                time.sleep(self._due - now)
