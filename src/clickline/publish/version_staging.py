"""The staging directory that a version is written to, and the step that makes it visible in its store.

Whatever happens before that step, the store is as it was.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from clickline.errors import VersionError
from clickline.files.atomic import sync_directory
from clickline.files.digests import file_sha256
from clickline.files.failpoints import reach
from clickline.files.leftovers import scratch_directory
from clickline.versions import donefile
from clickline.versions.donefile import directory_of
from clickline.versions.manifest import MANIFEST, FileFacts, Manifest
from clickline.versions.store import WRITING, Store


@contextmanager
def staging_directory(store: Store, version: int) -> Iterator[Path]:
    """A directory to write a version into, gone afterwards unless `reveal` has renamed it."""
    if store.directory is None:
        with scratch_directory("clickline-publish-") as scratch:
            yield scratch
        return
    # Inside the store, so that the rename stays within one file system and is atomic.
    place = store.directory / f"{WRITING}{directory_of(version)}-{os.getpid()}"
    try:
        place.mkdir(parents=True)
        yield place
    except OSError as error:
        raise VersionError(f"{place}: cannot be written: {error}; the versions before are untouched") from error
    finally:
        shutil.rmtree(place, ignore_errors=True)


def reveal(store: Store, staging: Path, manifest: Manifest) -> None:
    """Put the directory in its place, and last the line that makes it a version."""
    folder = directory_of(manifest.version)
    content = (staging / MANIFEST).read_bytes()
    reach("publish.before-rename")
    try:
        # Every file was synced when it was written. Its directory, the rename and the store follow before the line
        # does: after a loss of power no line may name a version that is not complete.
        if store.directory is not None:
            sync_directory(staging)
            staging.rename(store.directory / folder)
            sync_directory(store.directory)
        else:
            for file in [*manifest.files, MANIFEST]:
                store.put(staging / file, f"{folder}/{file}")
        reach("publish.after-rename")
        donefile.append_version(
            store,
            version=manifest.version,
            kind=manifest.kind,
            parent=manifest.parent,
            sha256=hashlib.sha256(content).hexdigest(),
        )
    except BaseException:
        with suppress(VersionError):  # if the store cannot even be read, the next publisher removes it
            # The append may have succeeded although it raised, as when a remote store's answer is lost. Then the
            # version is visible and its files must stay.
            if donefile.read(store).last < manifest.version:
                store.remove(folder)
        raise


def file_facts(file: Path) -> FileFacts:
    """What the manifest says of a file."""
    return FileFacts(bytes=file.stat().st_size, sha256=file_sha256(file))


def write_file(path: Path, content: bytes) -> None:
    """Write a file that is on the disk when this returns."""
    path.write_bytes(content)
    sync(path)


def sync(path: Path) -> None:
    """Have what was written to a file on the disk."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
