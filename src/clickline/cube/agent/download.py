"""One file over HTTP: goes on where it broke off, at a bounded rate, and is believed only when its hashes are right.

What has come so far lies in `<name>.part`, with the hash that is expected beside it: a part of another file is thrown
away. Beware: the server is not trusted with sizes. More than was announced, or than is allowed, ends the download.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import httpx

from clickline.errors import PeerError, VersionError
from clickline.files.failpoints import reach

_BLOCK = 1 << 18
_SPARE = 16 << 20
"""Bytes that stay free on the disk."""
_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18})")
_TIMEOUT = httpx.Timeout(30.0, connect=5.0)


class DamagedFileError(VersionError):
    """All of a file has come, and it is not what it should be."""


@dataclass(frozen=True)
class ExpectedHashes:
    """What a file must be; at least one of its hashes is known."""

    sha256: str = ""
    md5: str = ""


@dataclass(frozen=True)
class DownloadLimits:
    """What a download may cost."""

    rate: float = 0.0
    """Bytes per second; 0: as fast as it goes."""
    largest: int = 1 << 40
    seconds: float = 3600.0


def web_client() -> httpx.Client:
    """Proxy settings of the environment have no influence, redirects are not followed."""
    return httpx.Client(timeout=_TIMEOUT, trust_env=False)


def download(
    client: httpx.Client, url: str, part: Path, *, expected: ExpectedHashes, limits: DownloadLimits = DownloadLimits()
) -> dict[str, object]:
    """Bring `part` to its full length and check it; gives back bytes and hashes. The caller gives it its name."""
    if not expected.sha256 and not expected.md5:
        raise VersionError(f"{url}: neither its SHA-256 nor its MD5 is known; it cannot be checked")
    note = part.with_name(f"{part.name}.of")
    mark = f"{expected.sha256} {expected.md5}"
    if part.exists() and (not note.exists() or note.read_text(encoding="utf-8") != mark):
        part.unlink()
    note.write_text(mark, encoding="utf-8")
    reach("agent.download-begun")
    try:
        _fetch(client, url, part, limits)
    except httpx.HTTPError as error:
        raise PeerError(f"{url}: {type(error).__name__}: {error}") from None
    except OSError as error:
        raise PeerError(f"{part}: {error.strerror or error}") from None
    facts = _hashes(part, md5=bool(expected.md5))
    for name in ("sha256", "md5"):
        wanted = getattr(expected, name)
        if wanted and facts[name] != wanted:
            part.unlink()
            raise DamagedFileError(f"{url}: damaged: its {name} is {facts[name]}, {wanted} was expected")
    note.unlink()
    return facts


def _fetch(client: httpx.Client, url: str, part: Path, limits: DownloadLimits) -> None:
    have = part.stat().st_size if part.exists() else 0
    headers = {"Range": f"bytes={have}-", "Accept-Encoding": "identity"} if have else {"Accept-Encoding": "identity"}
    with client.stream("GET", url, headers=headers) as answer:
        if answer.status_code == 416:  # nothing is left to send, or ours is longer: the hash will tell
            return
        if answer.status_code not in (200, 206):
            raise PeerError(f"{url}: HTTP {answer.status_code}")
        total = _total(answer, url)
        start = have if answer.status_code == 206 else 0
        _check_room(part, total, start, limits, url)
        pace = _Pace(limits.rate)
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
                    raise PeerError(f"{url}: {size} of {total} bytes within {limits.seconds:g} s; it goes on next time")
                pace.spend(len(piece))
            file.flush()
            os.fsync(file.fileno())
    if size != total:
        raise PeerError(f"{url}: broke off after {size} of {total} bytes")


def _total(answer: httpx.Response, url: str) -> int:
    if answer.status_code == 206:
        found = _RANGE.fullmatch(answer.headers.get("content-range", ""))
        if found is None or not answer.request.headers["range"].startswith(f"bytes={found[1]}-"):
            raise PeerError(f"{url}: answers another range than was asked for")
        return int(found[3])
    length = answer.headers.get("content-length", "")
    if not length.isdigit():
        raise PeerError(f"{url}: does not say how long it is")
    return int(length)


def _check_room(part: Path, total: int, start: int, limits: DownloadLimits, url: str) -> None:
    if total > limits.largest:
        raise VersionError(f"{url}: has {total} bytes; at most {limits.largest} are accepted")
    free = shutil.disk_usage(part.parent).free
    if total - start > free - _SPARE:
        raise VersionError(
            f"{url}: {total - start} bytes are to come, {part.parent} has room for {max(0, free - _SPARE)}"
        )


def _hashes(path: Path, *, md5: bool) -> dict[str, object]:
    sha, older, size = hashlib.sha256(), hashlib.md5(usedforsecurity=False), 0
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            sha.update(piece)
            if md5:
                older.update(piece)
            size += len(piece)
    return {"bytes": size, "sha256": sha.hexdigest(), "md5": older.hexdigest() if md5 else ""}


def same_file(path: Path, expected: ExpectedHashes) -> bool:
    """Whether a file is what it should be."""
    facts = _hashes(path, md5=bool(expected.md5))
    return all(not getattr(expected, name) or facts[name] == getattr(expected, name) for name in ("sha256", "md5"))


class _Pace:
    """Spends bytes no faster than the rate, seen over the whole."""

    def __init__(self, rate: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._clock = rate, clock
        self._due = clock()

    def spend(self, size: int) -> None:
        if self._rate > 0:
            now = self._clock()
            self._due = max(self._due, now - 0.25) + size / self._rate
            if self._due > now:
                time.sleep(self._due - now)
