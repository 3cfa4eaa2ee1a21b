"""The donefile: one line of JSON for every version, in the order in which they became visible.

A version exists once its line is there, whole, with its newline; the last line that names a version says which one to
serve. Lines are only ever added: a version, a rollback to one, the removal of some. docs/reference/version-format.md is
the specification. Beware: a line that is cut short is not an error. Its publisher is at work, or dead, and the line
does not count yet.
"""

from __future__ import annotations

import errno
import io
import json
import os
import re
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from clickline.errors import VersionError
from clickline.files.atomic import sync_directory
from clickline.files.digests import is_as_sealed, sealed_json
from clickline.files.failpoints import reach
from clickline.versions.store import Store

DONEFILE = "versions.jsonl"
LIMIT = 64 << 20
LINE_LIMIT = 1 << 16
HIGHEST = 10**10 - 1
"""Versions are numbered 1, 2, 3, …; their directories have ten digits."""
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class DonefileEntry:
    """A version, from its line."""

    version: int
    kind: str
    """base or delta"""
    parent: int | None
    manifest: str
    sha256: str
    """Of the manifest."""
    time: float


@dataclass(frozen=True, slots=True)
class Donefile:
    """The contents of a donefile."""

    entries: dict[int, DonefileEntry]
    """Versions that were not removed, by number, oldest first."""
    serving: int | None
    """The version to serve; None while there is none."""
    last: int
    """The highest number that was ever used; 0 at the start."""

    def entry(self, version: int, *, where: str) -> DonefileEntry:
        """The entry of a version. Raises VersionError, with a list of the versions there are."""
        if version not in self.entries:
            numbers = list(self.entries)
            listed = ", ".join(map(str, numbers[-20:])) or "none"
            raise VersionError(f"{where}: no version {version}; there are: {'… ' if len(numbers) > 20 else ''}{listed}")
        return self.entries[version]

    def chain(self, version: int, *, where: str) -> list[DonefileEntry]:
        """The versions that a reader needs: the base, then the deltas in order. A gap is an error that names it."""
        chain = [self.entry(version, where=where)]
        while chain[0].parent is not None:
            parent = chain[0].parent
            if parent not in self.entries:
                raise VersionError(f"{where}: version {chain[0].version} is a delta on {parent}, which is not there")
            chain.insert(0, self.entries[parent])
        return chain


def directory_of(version: int) -> str:
    return f"v{version:010d}"


def manifest_of(version: int) -> str:
    return f"{directory_of(version)}/manifest.json"


def read(store: Store) -> Donefile:
    """The donefile of a store; an empty one if there is none yet."""
    return parse(store.read(DONEFILE, limit=LIMIT), where=store.shown(DONEFILE)) if _present(store) else parse(b"")


def serving(store: Store) -> int | None:
    """The version that a reader should serve."""
    return read(store).serving


def parse(content: bytes, *, where: str = DONEFILE) -> Donefile:
    """Parse a donefile. A half-written last line is left out; any other line that cannot be read is an error."""
    entries: dict[int, DonefileEntry] = {}
    serving: int | None = None
    last = 0
    for number, line in enumerate(io.BytesIO(content), 1):
        if not line.endswith(b"\n"):
            break  # it is being written, or its writer died
        at = f"{where}, line {number}"
        fields = _decoded(line, at)
        if "version" in fields:
            entry = _entry(fields, at)
            # Numbers have no gaps: one that is missing is a line that was lost.
            if entry.version != last + 1:
                raise VersionError(f"{at}: version {entry.version} follows {last}; {last + 1} was expected")
            entries[entry.version] = entry
            serving = last = entry.version
        elif "rollback_to" in fields:
            serving = _listed(fields["rollback_to"], entries, at)
        elif isinstance(fields.get("removed"), list):
            for version in fields["removed"]:
                entries.pop(_listed(version, entries, at))
        else:
            raise VersionError(f"{at}: none of version, rollback_to and removed is in it")
    if serving is not None and serving not in entries:
        raise VersionError(f"{where}: version {serving} is the one to serve, but was removed")
    return Donefile(entries, serving, last)


def append_version(store: Store, *, version: int, kind: str, parent: int | None, sha256: str) -> DonefileEntry:
    """Make a version visible. Its directory is complete by now."""
    entry = DonefileEntry(version, kind, parent, manifest_of(version), sha256, round(time.time(), 3))
    # The keys of a line are the fields of an entry, in the same order.
    _append(store, {name: getattr(entry, name) for name in DonefileEntry.__slots__})
    return entry


def append_rollback(store: Store, *, to: int) -> None:
    """Make an earlier version the one to serve."""
    _append(store, {"rollback_to": to, "time": round(time.time(), 3)})


def append_removal(store: Store, *, versions: list[int]) -> None:
    """Record that versions are removed, before their files are."""
    _append(store, {"removed": versions, "time": round(time.time(), 3)})


def _append(store: Store, fields: dict[str, Any]) -> None:
    line = sealed_json(fields) + b"\n"  # without a check, a flipped bit could name another version
    # A lock of its own, held for one append only: a rollback need not wait until a publisher, which holds the lock of
    # publishing for minutes, has finished.
    with store.locked("donefile", wait=60.0):
        # Under the lock this also catches what changed since the caller read the donefile: a number that was taken
        # meanwhile, or a rollback to a version that was removed.
        parse(_whole(store) + line, where=store.shown(DONEFILE))  # what would be unreadable is not written
        if store.directory is None:
            store.write(DONEFILE, _whole(store) + line)
        else:
            _append_synced(store, line)


def _append_synced(store: Store, line: bytes) -> None:
    assert store.directory is not None  # noqa: S101  (the caller asks)
    whole, half = len(_whole(store)), len(line) // 2
    try:
        descriptor = os.open(store.directory / DONEFILE, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.ftruncate(descriptor, whole)  # removes half a line; its publisher is dead, since the lock is ours
            # Two writes instead of one, so that a test can kill the process between them.
            _write_all(descriptor, line[:half], at=whole)
            reach("publish.donefile-half")
            _write_all(descriptor, line[half:], at=whole + half)
            os.fsync(descriptor)
        except BaseException:
            # The error says that no line was added, so one whose sync failed is cut off, too: readers see it already.
            with suppress(OSError):  # if even this fails, half a line stays, which readers ignore
                os.ftruncate(descriptor, whole)
                os.fsync(descriptor)
            raise
        finally:
            os.close(descriptor)
        sync_directory(store.directory)
    except OSError as error:
        raise VersionError(
            f"{store.shown(DONEFILE)}: cannot be written: {error.strerror or error}; no line was added to it"
        ) from error


def _write_all(descriptor: int, content: bytes, *, at: int) -> None:
    """Write all of it. A full disk or a limit makes a write shorter before it makes it fail."""
    while content:
        written = os.pwrite(descriptor, content, at)
        if written == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        content, at = content[written:], at + written


def _present(store: Store) -> bool:
    return store.exists(DONEFILE)


def _whole(store: Store) -> bytes:
    """The lines that are whole."""
    content = store.read(DONEFILE, limit=LIMIT) if _present(store) else b""
    return content[: content.rfind(b"\n") + 1]


def _decoded(line: bytes, at: str) -> dict[str, Any]:
    if len(line) > LINE_LIMIT:
        raise VersionError(f"{at}: {len(line)} bytes; a line has at most {LINE_LIMIT}")
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise VersionError(f"{at}: garbled: {error}") from error
    if not isinstance(fields, dict):
        raise VersionError(f"{at}: garbled: not a JSON object")
    if not is_as_sealed(line.removesuffix(b"\n"), fields):
        raise VersionError(f"{at}: garbled: its check {fields['check']!r:.40} does not fit the rest of the line")
    return fields


def _entry(fields: dict[str, Any], at: str) -> DonefileEntry:
    version, kind, parent = fields["version"], fields.get("kind"), fields.get("parent")
    if not _is_number(version):
        raise VersionError(f"{at}: version {version!r}; a number from 1 to {HIGHEST} was expected")
    if kind not in ("base", "delta") or (kind == "base") != (parent is None):
        raise VersionError(f"{at}: kind {kind!r} with parent {parent!r}; a base has none and a delta has one")
    if parent is not None and (not _is_number(parent) or parent != version - 1):
        raise VersionError(f"{at}: version {version} is a delta on {parent!r}; {version - 1} was expected")
    if fields.get("manifest") != manifest_of(version):
        raise VersionError(f"{at}: manifest {fields.get('manifest')!r}; {manifest_of(version)!r} was expected")
    sha256, when = fields.get("sha256"), fields.get("time")
    if not isinstance(sha256, str) or not _SHA256.fullmatch(sha256):
        raise VersionError(f"{at}: sha256 {sha256!r}; 64 hexadecimal digits were expected")
    if isinstance(when, bool) or not isinstance(when, int | float) or not 0 <= when < 1e12:
        raise VersionError(f"{at}: time {when!r}; seconds since 1970 were expected")
    return DonefileEntry(version, kind, parent, fields["manifest"], sha256, float(when))


def _listed(version: Any, entries: dict[int, DonefileEntry], at: str) -> int:
    if not _is_number(version) or version not in entries:
        raise VersionError(f"{at}: names version {version!r}, which is not in the lines before it")
    return int(version)


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= HIGHEST
