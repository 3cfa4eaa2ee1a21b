"""Where the older stack keeps its files: local directories, HTTP, FTP, and any other URL that fsspec knows.

HTTP goes through httpx, which is there anyway and keeps its deadlines; everything else through fsspec. All reads are
bounded, and what is not there is told apart from what cannot be reached.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

import fsspec
import httpx

from clickline.errors import DataError, PeerError
from clickline.publish.older.sequence_files import aside

_SECONDS = 30.0
_CHUNK = 1 << 20
_LARGEST_LISTING = 64 << 20


def read_bytes(place: str, *, limit: int) -> bytes | None:
    """A whole file of at most `limit` bytes; None if it is not there."""
    with _reached(place):
        if is_web(place):
            data = _web_bytes(place, limit)
        else:
            system, name = _system(place)
            try:
                with system.open(name, "rb") as file:
                    data = file.read(limit + 1)
            except (FileNotFoundError, NotADirectoryError):
                return None
    if data is not None and len(data) > limit:
        raise DataError(f"'{place}' is larger than {limit} bytes.")
    return data


def fetch_directory(place: str, into: Path) -> list[Path]:
    """Copies of all files of a directory, which has none below it; complete, or an error."""
    names = _web_names(place) if is_web(place) else _names(place)
    if not names:
        raise DataError(f"There are no files in '{place}'.")
    copies = []
    for name, source in names:
        with aside(into / name) as temporary, _reached(source):
            if is_web(source):
                _download(source, temporary)
            else:
                system, inner = _system(source)
                with system.open(inner, "rb") as file, temporary.open("wb") as copy:
                    while data := file.read(_CHUNK):
                        copy.write(data)
        copies.append(into / name)
    return copies


def is_web(place: str) -> bool:
    return place.startswith(("http://", "https://"))


def beside(address: str, path: str) -> str:
    """A path that somebody on the other side named: on the same host, for HTTP and FTP; as it is, else."""
    if "://" in path or not address.startswith(("http://", "https://", "ftp://")):
        return path
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc}/{path.lstrip('/')}"


def join(directory: str, name: str) -> str:
    return f"{directory.rstrip('/')}/{name}"


def _system(place: str) -> tuple[Any, str]:
    # A connection of its own each time: a kept one would be dead after the first pause.
    once = {"timeout": _SECONDS, "use_listings_cache": False, "skip_instance_cache": True}
    options = once if place.startswith("ftp://") else {}
    try:
        system, name = fsspec.core.url_to_fs(place, **options)
    except (ImportError, ValueError) as error:
        raise DataError(f"Cannot read '{place}': {error}") from None
    return system, name


def _names(place: str) -> list[tuple[str, str]]:
    system, inner = _system(place)
    with _reached(place):
        try:
            items = system.ls(inner, detail=True)
        except FileNotFoundError:
            raise DataError(f"There is no directory '{place}'.") from None
    found = []
    for item in sorted(items, key=lambda item: str(item["name"])):
        name = str(item["name"]).rstrip("/").rpartition("/")[2]
        if name.startswith((".", "_")):
            continue
        if item["type"] == "directory":
            raise DataError(f"'{place}' must hold files only, but '{name}' is a directory.")
        found.append((name, join(place, name)))
    return found


def _web_names(place: str) -> list[tuple[str, str]]:
    """From the listing of our file server, or the links of any other's page."""
    directory = place.rstrip("/") + "/"
    with _reached(directory):
        answer = _web_bytes(directory, _LARGEST_LISTING)
    if answer is None:
        raise DataError(f"There is no directory '{place}'.")
    links = _Links()
    links.feed(answer.decode("utf-8", "replace"))
    found = {}
    for link in links.found:
        url = urljoin(directory, link).partition("#")[0].partition("?")[0]
        name = unquote(url.removeprefix(directory))
        if not url.startswith(directory) or not name or name.startswith((".", "_")) or "\0" in name:
            continue  # the directory above, or a link to somewhere else
        if "/" in name:
            raise DataError(f"'{place}' must hold files only, but '{name}' is a directory.")
        found[name] = url
    return sorted(found.items())


def _web_bytes(url: str, limit: int) -> bytes | None:
    with httpx.stream("GET", url, timeout=_SECONDS, follow_redirects=True) as answer:
        if answer.status_code in (404, 410):
            return None
        answer.raise_for_status()
        data = b""
        for piece in answer.iter_bytes(_CHUNK):
            data += piece
            if len(data) > limit:
                break
        return data


def _download(url: str, target: Path) -> None:
    digest = hashlib.sha256()
    with (
        httpx.stream("GET", url, timeout=_SECONDS, follow_redirects=True) as answer,
        target.open("wb") as copy,
    ):
        answer.raise_for_status()
        for piece in answer.iter_bytes(_CHUNK):
            copy.write(piece)
            digest.update(piece)
        expected = answer.headers.get("x-checksum-sha256", digest.hexdigest())
    if expected != digest.hexdigest():
        raise DataError(f"'{url}' came with other bytes than its checksum says.")


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.found += [value for name, value in attrs if name == "href" and value]


@contextmanager
def _reached(place: str) -> Iterator[None]:
    """Trouble on the way becomes one kind of error that names the place."""
    try:
        yield
    except httpx.InvalidURL as error:
        raise DataError(f"'{place}' is no address: {error}.") from None
    except (httpx.HTTPError, OSError, EOFError) as error:  # ftplib has EOFError for a connection that ends
        raise PeerError(f"'{place}' cannot be read: {type(error).__name__}: {error}") from None
    except Exception as error:
        if type(error).__module__ == "ftplib":
            raise PeerError(f"'{place}' cannot be read: {type(error).__name__}: {error}") from None
        raise
