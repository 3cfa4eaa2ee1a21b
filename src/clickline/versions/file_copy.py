"""Files of a store on this machine: those of a directory as they are, others as copies."""

from __future__ import annotations

import hashlib
from pathlib import Path

from clickline.errors import VersionError
from clickline.files.digests import file_sha256
from clickline.versions.store import Store


def fetch(store: Store, name: str, to: Path, *, limit: int) -> Path:
    """The file's path on this machine; copied to `to` unless it is here already, but no more than `limit` bytes."""
    if store.directory is not None:
        return store.directory / name
    if not to.is_file():
        _copy(store, name, to, limit=limit)
    return to


def fetch_checked(store: Store, name: str, to: Path, *, size: int, sha256: str) -> Path:
    """Like `fetch`; raises VersionError unless all bytes are those that this size and SHA-256 are of.

    Every byte is read once for it: while it is copied, or from the file that is here.
    """
    if store.directory is None and not to.is_file():
        path, seen = to, _copy(store, name, to, limit=size)
    else:
        path, seen = fetch(store, name, to, limit=size), ""
    found = path.stat().st_size if path.is_file() else None
    if found != size:
        raise VersionError(
            f"{store.shown(name)}: {'not there' if found is None else f'{found} bytes'}; expected {size}"
        )
    with store.explained(name):
        seen = seen or file_sha256(path)
    if seen != sha256:
        raise VersionError(
            f"{store.shown(name)}: damaged: its SHA-256 is {seen[:12]}…, the manifest says {sha256[:12]}…; "
            "publish again, or copy the file from where it is sound"
        )
    return path


def _copy(store: Store, name: str, to: Path, *, limit: int) -> str:
    """Copy a file to this machine; its SHA-256, computed on the way."""
    size, digest = 0, hashlib.sha256()
    try:
        to.parent.mkdir(parents=True, exist_ok=True)
        with to.open("wb") as file:
            for piece in store.pieces(name):
                file.write(piece)
                digest.update(piece)
                size += len(piece)
                # Bounds the disk space that a wrong or hostile store can fill.
                if size > limit:
                    raise VersionError(f"{store.shown(name)}: more than the {limit} bytes that were expected")
    except BaseException as error:
        to.unlink(missing_ok=True)  # half a file would be taken for the whole one
        if not isinstance(error, OSError):
            raise
        raise VersionError(f"{store.shown(name)}: cannot be copied to {to}: {error.strerror or error}") from error
    return digest.hexdigest()
