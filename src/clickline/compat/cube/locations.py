"""Where Cube keeps its files: local directories, HTTP, FTP, and any other URL that fsspec knows.

HTTP goes through httpx, which keeps deadlines; everything else through fsspec. All reads are
bounded, by a limit per file and by the room on the disk, and stay at the host that was asked: neither a line of a
donefile nor a redirect leads elsewhere. A missing file is told apart from an unreachable host.
"""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import unquote, urljoin, urlsplit

import fsspec
import httpx

from clickline.compat.cube.sequence_files import aside
from clickline.errors import DataError, PeerError
from clickline.files.storage import is_client_error

_SECONDS = 30.0
_CHUNK = 1 << 20
_LARGEST_LISTING = 64 << 20
LARGEST_FILE = 256 << 30
_MOST_FILES = 100_000
_LONGEST = 6 * 3600.0
"""Seconds for one file, however slowly it comes."""
_SPARE = 64 << 20
"""Bytes that a disk keeps free."""
_AHEAD = 64 << 20
"""Bytes that may come before the room on the disk is looked up again."""
_MOST_REDIRECTS = 5


def read_bytes(address: str, *, limit: int) -> bytes | None:
    """A whole file of at most `limit` bytes; None if it is not there."""
    with _reached(address):
        if is_web(address):
            data = _web_bytes(address, limit)
        else:
            system, name = _system(address)
            try:
                with system.open(name, "rb") as file:
                    data = file.read(limit + 1)
            except (FileNotFoundError, NotADirectoryError):
                return None
    if data is not None and len(data) > limit:
        raise DataError(f"'{address}' is larger than {limit} bytes")
    return data


def fetch_directory(address: str, into: Path, *, largest: int = LARGEST_FILE) -> list[Path]:
    """Copies of all files of a directory, which has none below it; complete, or an error."""
    names = _web_names(address) if is_web(address) else _names(address)
    if not names:
        raise DataError(f"there are no files in '{address}'")
    if len(names) > _MOST_FILES:
        raise DataError(f"there are {len(names)} files in '{address}'; at most {_MOST_FILES} are taken")
    copies = []
    for name, source in names:
        with aside(into / name) as temporary, _reached(source):
            copy = _Copy(source, temporary, largest)
            if is_web(source):
                _download(source, copy)
            else:
                system, inner = _system(source)
                with system.open(inner, "rb") as file, copy:
                    while data := file.read(_CHUNK):
                        copy.write(data)
        copies.append(into / name)
    return copies


def is_web(address: str) -> bool:
    return address.startswith(("http://", "https://"))


def beside(address: str, path: str) -> str:
    """A path that a donefile names: on the host of the donefile's address, or on this machine if it lies here.

    Raises ValueError if it leads elsewhere: the writer of a donefile must not choose what this machine reads.
    """
    if "://" not in address:
        if "://" in path and address:  # no address: a line is only checked
            raise ValueError(f"its input {path!r:.200} is a URL, but the donefile lies on this machine")
        return path
    own = urlsplit(address)
    if "://" not in path:
        return f"{own.scheme}://{own.netloc}/{path.lstrip('/')}"
    named = urlsplit(path)
    if (named.scheme, named.netloc) != (own.scheme, own.netloc):
        raise ValueError(f"its input {path!r:.200} is not at {own.scheme}://{own.netloc}, where the donefile lies")
    return path


def join(directory: str, name: str) -> str:
    return f"{directory.rstrip('/')}/{name}"


def _system(address: str) -> tuple[Any, str]:
    # A connection of its own each time: a kept one would be dead after the first pause.
    once = {"timeout": _SECONDS, "use_listings_cache": False, "skip_instance_cache": True}
    options = once if address.startswith("ftp://") else {}
    try:
        system, name = fsspec.core.url_to_fs(address, **options)
    except (ImportError, ValueError) as error:
        raise DataError(f"cannot read '{address}': {error}") from None
    return system, name


def _names(address: str) -> list[tuple[str, str]]:
    system, inner = _system(address)
    with _reached(address):
        try:
            items = system.ls(inner, detail=True)
        except FileNotFoundError:
            raise DataError(f"there is no directory '{address}'") from None
    names = []
    for item in sorted(items, key=lambda item: str(item["name"])):
        name = str(item["name"]).rstrip("/").rpartition("/")[2]
        if name.startswith((".", "_")):
            continue
        if item["type"] == "directory":
            raise DataError(f"'{address}' must hold files only, but '{name}' is a directory")
        names.append((name, join(address, name)))
    return names


def _web_names(address: str) -> list[tuple[str, str]]:
    """From the listing of our file server, or the links of any other's page."""
    directory = address.rstrip("/") + "/"
    with _reached(directory):
        answer = _web_bytes(directory, _LARGEST_LISTING)
    if answer is None:
        raise DataError(f"there is no directory '{address}'")
    links = _Links()
    links.feed(answer.decode("utf-8", "replace"))
    urls = {}
    for link in links.found:
        # Listings of other servers have links such as `?C=N;O=D` to sort them, which name the directory itself.
        url = urljoin(directory, link).partition("#")[0].partition("?")[0]
        name = unquote(url.removeprefix(directory))
        if not url.startswith(directory) or not name or name.startswith((".", "_")) or "\0" in name:
            continue  # the directory above, or a link to somewhere else
        if "/" in name:
            raise DataError(f"'{address}' must hold files only, but '{name}' is a directory")
        urls[name] = url
    return sorted(urls.items())


@contextmanager
def _asked(url: str) -> Iterator[httpx.Response]:
    """The answer behind all redirects, which are followed on the same host only."""
    with httpx.Client(timeout=_SECONDS) as client:
        request = client.build_request("GET", url)
        for _ in range(_MOST_REDIRECTS + 1):
            answer = client.send(request, stream=True)
            # httpx does not follow redirects unless told to, so each is judged here before a request is sent.
            with closing(answer):
                if answer.next_request is None:
                    yield answer
                    return
                before, request = request.url, answer.next_request
            # From http to https the default port changes, which is not another host.
            same_port = before.port == request.url.port or (before.port, request.url.scheme) == (None, "https")
            if request.url.host != before.host or not same_port:
                raise PeerError(f"'{url}' is redirected to another host, {request.url.host}: give that address instead")
        raise PeerError(f"'{url}' is redirected more than {_MOST_REDIRECTS} times")


class _Copy:
    """A file that is being fetched, with its bounds."""

    def __init__(self, source: str, target: Path, largest: int) -> None:
        self._source, self._target, self._largest = source, target, largest
        self._size = self._checked = 0  # what came; how far there is room for sure
        self._give_up = time.monotonic() + _LONGEST
        self._file: BinaryIO | None = None

    def __enter__(self) -> _Copy:
        self._file = self._target.open("wb")
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def expect(self, size: int) -> None:
        """Raises DataError if so much is too much."""
        if size > self._largest:
            raise DataError(f"'{self._source}' is larger than {self._largest} bytes, the most that is taken of a file")
        room = shutil.disk_usage(self._target.parent).free - _SPARE
        if size - self._size > room:
            raise DataError(
                f"'{self._source}': {size - self._size} bytes are to come, but there is room for {max(0, room)} in "
                f"'{self._target.parent}'"
            )
        # A query of the disk for each piece would be slow; the fuller the disk is, the sooner comes the next one.
        self._checked = size + min(_AHEAD, room // 2)

    def write(self, data: bytes) -> None:
        if self._size + len(data) > min(self._checked, self._largest):
            self.expect(self._size + len(data))
        if time.monotonic() > self._give_up:
            raise PeerError(f"'{self._source}': {self._size} bytes within {_LONGEST:g} seconds; it is given up")
        assert self._file is not None  # noqa: S101
        self._file.write(data)
        self._size += len(data)


def _web_bytes(url: str, limit: int) -> bytes | None:
    with _asked(url) as answer:
        if answer.status_code in (404, 410):
            return None
        answer.raise_for_status()
        data = b""
        for piece in answer.iter_bytes(_CHUNK):
            data += piece
            if len(data) > limit:
                break
        return data


def _download(url: str, copy: _Copy) -> None:
    digest = hashlib.sha256()
    with _asked(url) as answer, copy:
        answer.raise_for_status()
        announced = answer.headers.get("content-length", "")
        if announced.isascii() and announced.isdigit() and len(announced) < 20:
            # Refused before a byte is fetched. The announcement may be wrong, so `write` checks what really comes.
            copy.expect(int(announced))
        for piece in answer.iter_bytes(_CHUNK):
            copy.write(piece)
            digest.update(piece)
        # Our file server sends this header; of another server's files there is nothing to compare with.
        expected = answer.headers.get("x-checksum-sha256", digest.hexdigest())
    if expected != digest.hexdigest():
        raise DataError(f"'{url}' came with other bytes than its checksum says")


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.found += [value for name, value in attrs if name == "href" and value]


@contextmanager
def _reached(address: str) -> Iterator[None]:
    """Turn every error of a connection into a PeerError that names the address."""
    try:
        yield
    except httpx.InvalidURL as error:
        raise DataError(f"'{address}' is not an address: {error}") from None
    except (httpx.HTTPError, OSError, EOFError) as error:  # ftplib has EOFError for a connection that ends
        raise PeerError(f"'{address}' cannot be read: {type(error).__name__}: {error}") from None
    except Exception as error:
        if type(error).__module__ == "ftplib" or is_client_error(error):
            raise PeerError(f"'{address}' cannot be read: {type(error).__name__}: {error}") from None
        raise
