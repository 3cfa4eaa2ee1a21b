"""Where versions come from: what transfer follows.

A source knows which chain of versions leads to the one that is to be served, and copies the row files of one of them to
this machine. Whatever is wrong with it is an error that names the file or address.
"""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import Annotated, Protocol

from msgspec import Meta, Struct

from clickline.cube.builder.builder import RowFile, VersionInput
from clickline.errors import VersionError
from clickline.files.digests import file_sha256
from clickline.versions.donefile import DONEFILE, directory_of
from clickline.versions.donefile import read as read_donefile
from clickline.versions.file_copy import fetch
from clickline.versions.manifest import read_manifest
from clickline.versions.store import Store

Version = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class ChainLink(Struct, frozen=True):
    """One version of the chain that leads from a base to the version to be served."""

    version: Version
    parent: Version | None
    base: Version
    input: str
    """Where it lies, for people."""
    digest: str
    """Digest of its input: another digest is another build."""

    @property
    def kind(self) -> str:
        return "base" if self.parent is None else "delta"


class VersionSource(Protocol):
    """Where transfer gets versions from."""

    def stamp(self) -> Hashable:
        """Changes when there may be something new, if that can be told cheaply; None if not."""

    def chain(self, version: int | None = None) -> list[ChainLink]:
        """From a base to the version to be served, or to the one that is named; empty while there is none."""

    def rows(self, link: ChainLink, *, scratch: Path) -> VersionInput:
        """A version's row files, on this machine."""


class PublishedSource:
    """A store that `clickline publish` writes to."""

    def __init__(self, store: Store, *, bases_only: bool = False) -> None:
        self._store, self._bases_only = store, bases_only

    def stamp(self) -> Hashable:
        if self._store.directory is None:
            return None
        try:
            found = (self._store.directory / DONEFILE).stat()
        except OSError:
            return "none"
        return (found.st_ino, found.st_size, found.st_mtime_ns)

    def chain(self, version: int | None = None) -> list[ChainLink]:
        donefile = read_donefile(self._store)
        serving = donefile.serving if version is None else version
        if serving is None:
            return []
        if self._bases_only and version is None:
            bases = [entry.version for entry in donefile.entries.values() if entry.kind == "base"]
            serving = max((each for each in bases if each <= serving), default=None)
            if serving is None:
                return []
        entries = donefile.chain(serving, where=self._store.shown(DONEFILE))
        base = entries[0].version
        return [
            ChainLink(
                version=entry.version,
                parent=entry.parent,
                base=base,
                input=self._store.shown(directory_of(entry.version)),
                digest=entry.sha256,
            )
            for entry in entries
        ]

    def rows(self, link: ChainLink, *, scratch: Path) -> VersionInput:
        donefile = read_donefile(self._store)
        entry = donefile.entry(link.version, where=self._store.shown(DONEFILE))
        manifest = read_manifest(self._store, entry)
        folder = directory_of(link.version)
        tables = {}
        for name, table in manifest.tables.items():
            files = []
            for file in table.files:
                expected = manifest.files[file]
                path = self._fetch(f"{folder}/{file}", scratch / folder / file, expected.bytes, expected.sha256)
                files.append(RowFile(path, expected.bytes, expected.sha256))
            tables[name] = files
        return VersionInput(link.version, link.parent, link.base, link.digest, tables)

    def _fetch(self, name: str, to: Path, size: int, sha256: str) -> Path:
        """Copy a row file, unless it is here already. The builder checks what came."""
        try:
            # Of a build that failed or was killed after the copy, which need not be copied again.
            if self._store.directory is None and to.exists():
                if file_sha256(to) == sha256:
                    return to
                to.unlink()
            return fetch(self._store, name, to, limit=size)
        except OSError as error:
            raise VersionError(f"{self._store.shown(name)}: cannot be copied to {to}: {error.strerror}") from None
