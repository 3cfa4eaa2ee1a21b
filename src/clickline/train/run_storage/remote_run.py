"""The objects of a run below a URL, in the layout of a run's directory.

A checkpoint is complete when its manifest is there: the manifest is uploaded last and removed first, so that an upload
which was interrupted is never taken for a checkpoint. Everything that is fetched is compared with the manifest.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import shutil
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from clickline.errors import CheckpointError
from clickline.files.atomic import sync_directory, write_synced
from clickline.files.failpoints import reach
from clickline.files.storage import open_storage
from clickline.objects.object_store import ListedObject, ObjectStore
from clickline.train.checkpoints.checkpoint_digests import FileDigest, damage
from clickline.train.checkpoints.checkpoint_directories import MANIFEST, figures_file
from clickline.train.checkpoints.checkpoint_manifest import (
    MANIFEST_LIMIT,
    CheckpointManifest,
    parse_manifest,
)

CHECKPOINTS = "checkpoints"
START = "start"
"""The weights that a run was given, which are a checkpoint as well."""
_FOLDER = re.compile(rf"({CHECKPOINTS}/step-\d{{10}}|{START})/([^/]+)")
_AT_A_TIME = 4
"""Files of a checkpoint that are sent or fetched at the same time."""


@dataclass(frozen=True)
class RemoteCheckpoint:
    """A complete checkpoint of a run at a URL."""

    folder: str
    """checkpoints/step-…, or start."""
    content: bytes
    """Of its manifest."""
    manifest: CheckpointManifest

    @property
    def name(self) -> str:
        return self.folder.rpartition("/")[2]

    @property
    def identity(self) -> str:
        return identity_of(self.content)


class RemoteRun:
    """The objects of one run."""

    def __init__(self, url: str) -> None:
        """`url` is the run's own: that of `output`, and the run's name. Credentials come from the environment."""
        storage, root = open_storage(url, {}, resolve=str, error=CheckpointError)
        self.url = url
        self.store = ObjectStore(url, storage, root.rstrip("/"))

    def probe(self) -> None:
        """Raise unless this process can write and remove objects there."""
        name = f".probe-{secrets.token_hex(4)}"
        try:
            self.store.write(name, b"probe\n")
            self.store.delete(name)
        except CheckpointError as error:
            raise CheckpointError(f"output {self.url}: {_reason(error)}; nothing was trained") from error

    def listing(self) -> dict[str, ListedObject]:
        """All objects of the run, by name."""
        return self.store.listing()

    def checkpoints(self, listing: Mapping[str, ListedObject]) -> dict[str, RemoteCheckpoint]:
        """All complete checkpoints by folder, those of earlier steps first, and `start` if there is one."""
        found = {}
        for name in sorted(listing):
            match = _FOLDER.fullmatch(name)
            if match is None or match[2] != MANIFEST:
                continue
            content = self.store.find(name, limit=MANIFEST_LIMIT)
            with suppress(CheckpointError):  # half a manifest, of a store that shows objects while they are written
                if content is not None:  # else it was removed meanwhile
                    manifest = parse_manifest(content, self.store.shown(name))
                    found[match[1]] = RemoteCheckpoint(match[1], content, manifest)
        return found

    def leftovers(self, listing: Mapping[str, ListedObject], complete: Mapping[str, RemoteCheckpoint]) -> list[str]:
        """Folders of checkpoints whose upload or removal did not come to its end."""
        folders = {match[1] for name in listing if (match := _FOLDER.fullmatch(name))}
        return sorted(folders - complete.keys())

    def upload_checkpoint(self, place: Path, folder: str, *, check: Callable[[], None]) -> int:
        """Upload a complete checkpoint; returns its bytes. `check` raises if it must not become visible."""
        content = (place / MANIFEST).read_bytes()
        manifest = parse_manifest(content, place / MANIFEST)
        # One of the same step that is there already must not be taken for complete while its files are replaced.
        self.store.delete(f"{folder}/{MANIFEST}")
        reach("upload.begun")

        def send(name: str) -> None:
            self.store.put(place / name, f"{folder}/{name}")
            reach("upload.file-sent")

        with ThreadPoolExecutor(_AT_A_TIME, thread_name_prefix="clickline-upload") as pool:
            list(pool.map(send, manifest["files"]))
        reach("upload.files-sent")
        check()
        self.store.write(f"{folder}/{MANIFEST}", content)
        reach("upload.done")
        return sum(file["bytes"] for file in manifest["files"].values()) + len(content)

    def remove_checkpoint(self, folder: str, *, check: Callable[[], None] = lambda: None) -> None:
        """Remove a checkpoint, or what is left of one. It ceases to be one first."""
        check()
        self.store.delete(f"{folder}/{MANIFEST}")
        reach("upload.marker-removed")
        if folder != START:
            self.store.delete(figures_file(Path(folder)).as_posix())
        self.store.remove(folder)
        reach("upload.removed")

    def fetch_checkpoint(self, checkpoint: RemoteCheckpoint, to: Path) -> Path:
        """Copy a checkpoint into a run's directory, complete or not at all; each file is compared with the manifest."""
        place = to / checkpoint.folder
        staging = place.with_name(f".writing-{place.name}-{secrets.token_hex(4)}")
        files = checkpoint.manifest["files"]
        try:
            staging.mkdir(parents=True)
            with ThreadPoolExecutor(_AT_A_TIME, thread_name_prefix="clickline-fetch") as pool:
                fetched = pool.map(
                    lambda name: self._fetch(f"{checkpoint.folder}/{name}", staging / name, limit=files[name]["bytes"]),
                    files,
                )
                for name, seen in zip(files, fetched, strict=True):
                    if seen != files[name]:
                        where = self.store.shown(f"{checkpoint.folder}/{name}")
                        raise CheckpointError(damage(where, seen=seen, listed=files[name]))
            write_synced(staging / MANIFEST, checkpoint.content)
            sync_directory(staging)
            shutil.rmtree(place, ignore_errors=True)
            staging.rename(place)
            sync_directory(place.parent)
        except OSError as error:
            raise CheckpointError(f"{place}: cannot be written: {error}") from error
        finally:
            shutil.rmtree(staging, ignore_errors=True)
        return place

    def fetch_file(self, name: str, to: Path, *, limit: int) -> None:
        """Copy a file other than those of checkpoints; readers find the old one or the new one."""
        aside = to.with_name(f".{to.name}.{secrets.token_hex(4)}.new")
        try:
            to.parent.mkdir(parents=True, exist_ok=True)
            self._fetch(name, aside, limit=limit)
            aside.replace(to)
        except OSError as error:
            raise CheckpointError(f"{to}: cannot be written: {error}") from error
        finally:
            aside.unlink(missing_ok=True)

    def _fetch(self, name: str, to: Path, *, limit: int) -> FileDigest:
        digest, size = hashlib.sha256(), 0
        with to.open("wb") as file:
            for piece in self.store.pieces(name):
                size += len(piece)
                # Bounds the disk space that a wrong or hostile store can fill.
                if size > limit:
                    raise CheckpointError(f"{self.store.shown(name)}: more than the {limit} bytes that were expected")
                file.write(piece)
                digest.update(piece)
        return {"bytes": size, "sha256": digest.hexdigest()}


def identity_of(manifest: bytes) -> str:
    """Tells a checkpoint from another one of the same step."""
    return hashlib.sha256(manifest).hexdigest()


def _reason(error: CheckpointError) -> str:
    """What is wrong with a place that cannot be written to, by the type of the trouble."""
    cause = error.__cause__
    if isinstance(cause, FileNotFoundError):
        return "there is no such bucket or directory; make it first, or correct the name"
    if isinstance(cause, PermissionError):
        return "no permission to write and remove objects there; check the credentials and what they may do"
    if isinstance(cause, NotImplementedError):
        return "this kind of URL can only be read; give a directory, s3:// or webhdfs://"
    if type(cause).__name__ in ("NoCredentialsError", "PartialCredentialsError"):
        return (
            "no credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment of the process that "
            "trains, or give its machine a role"
        )
    return str(error)
