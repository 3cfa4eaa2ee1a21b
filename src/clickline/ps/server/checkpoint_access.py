"""How a parameter server reads and writes checkpoints: in the run's directory if it sees it, else over the network.

Without the directory, the server's part of a checkpoint is written to its scratch directory and stays there until the
next one is written: the coordinator fetches it from there. What is to be loaded is fetched from the coordinator, and
also kept in the scratch directory; files that this server has written itself are not fetched again.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from clickline.config.training import CheckpointTransfer
from clickline.errors import CheckpointError
from clickline.files.leftovers import scratch_directory
from clickline.ps.protocol.file_messages import CHUNK_BYTES
from clickline.ps.protocol.member_messages import RunDirectory
from clickline.ps.staging import part_directory
from clickline.train.checkpoints import checkpoint_files
from clickline.train.checkpoints.checkpoint_digests import FileDigest
from clickline.train.checkpoints.checkpoint_directories import MANIFEST
from clickline.train.checkpoints.checkpoint_manifest import MANIFEST_LIMIT
from clickline.train.checkpoints.received_file import ReceivedFile, read_chunk
from clickline.train.run_files.run_lock import nonce_in

FetchChunk = Callable[[str, str, int], NDArray[Any]]
"""Bytes of the coordinator's file: by checkpoint, name and offset."""


class CheckpointAccess:
    """Places of checkpoints on this server's host."""

    def __init__(self, *, name: str, transfer: CheckpointTransfer, buckets: tuple[int, int]) -> None:
        self._name, self._transfer, self._buckets = name, transfer, buckets
        self._open = ExitStack()
        self.fetch_chunk: FetchChunk | None = None
        self._part: Path | None = None
        """The directory of the last part that was written here."""
        self._written: dict[str, FileDigest] = {}
        """Its files."""

    @cached_property
    def _scratch(self) -> Path:
        """A directory of this process alone, below TMPDIR."""
        return self._open.enter_context(scratch_directory(f"clickline-{self._name}-"))

    def sees(self, directory: RunDirectory | None) -> bool:
        """Whether checkpoints are read and written in the run's directory. Raises CheckpointError if they must be."""
        if directory is None:
            return True
        # Looked at again for each checkpoint: a mount may come, and a coordinator may move to another host.
        here = self._transfer != "network" and nonce_in(Path(directory.path)) == directory.nonce
        if not here and self._transfer == "directory":
            raise CheckpointError(
                f"{self._name} does not see the run's directory, {directory.path} on the coordinator's host, and "
                "checkpoint.transfer is directory: mount it there, or let checkpoints travel (auto)"
            )
        return here

    def readable(self, checkpoint: str, directory: RunDirectory | None, *, check: Callable[[], None]) -> Path:
        """The directory on this host that has what this server needs of a checkpoint. `check` may raise meanwhile."""
        if self.sees(directory):
            return Path(checkpoint)
        copy = self._scratch / f"copy-{Path(checkpoint).name}"
        # The weights that the run began with are read again at each epoch; of the others one is enough.
        for old in {copy, *self._scratch.glob("copy-step-*")}:
            shutil.rmtree(old, ignore_errors=True)
        copy.mkdir(parents=True)
        self._fetch_manifest(checkpoint, copy / MANIFEST)
        manifest = checkpoint_files.read(copy).manifest
        for file, listed in manifest["files"].items():
            if checkpoint_files.has_rows_of(file, self._buckets):
                check()
                self._fetch(checkpoint, copy / file, listed, check=check)
        return copy

    def _fetch_manifest(self, checkpoint: str, place: Path) -> None:
        content = b""
        while chunk := self._chunk(checkpoint, MANIFEST, len(content)).tobytes():
            content += chunk
            if len(content) > MANIFEST_LIMIT:
                raise CheckpointError(f"{checkpoint}: its manifest is larger than {MANIFEST_LIMIT} bytes")
        place.write_bytes(content)

    def _fetch(self, checkpoint: str, place: Path, listed: FileDigest, *, check: Callable[[], None]) -> None:
        if self._part is not None and self._written.get(place.name) == listed:
            os.link(self._part / place.name, place)
            return
        file = ReceivedFile(place.parent, place.name, listed, sender="the coordinator")
        try:
            while not file.complete:
                check()
                file.take(self._chunk(checkpoint, place.name, file.received))
        finally:
            file.close()

    def _chunk(self, checkpoint: str, file: str, offset: int) -> NDArray[Any]:
        if self.fetch_chunk is None:
            raise CheckpointError(f"{checkpoint} is on another host, and {self._name} has not joined yet")
        return self.fetch_chunk(checkpoint, file, offset)

    def begin_part(self, staging: Path, directory: RunDirectory | None, *, writer: str) -> tuple[Path, str]:
        """A directory for this server's part of a checkpoint, and the name by which the coordinator finds it.

        The name is empty where the coordinator has to fetch the part.
        """
        try:
            if self.sees(directory):
                own = staging.with_name(part_directory(staging, writer))
                own.mkdir(exist_ok=True)
                return own, own.name
            self._drop_part()
            own = self._scratch / f"part-{staging.name}"
            shutil.rmtree(own, ignore_errors=True)
            own.mkdir(parents=True)
        except OSError as error:
            raise CheckpointError(f"{self._name}: its part of a checkpoint cannot be written: {error}") from error
        self._part = own
        return own, ""

    def part_written(self, files: Mapping[str, FileDigest]) -> None:
        """The part that was begun is complete."""
        self._written = dict(files)

    def part_chunk(self, file: str, offset: int) -> bytes | None:
        """Bytes of a file of the last part, from an offset on; None if this process has not written such a file."""
        if self._part is None or file not in self._written:
            return None
        return read_chunk(self._part / file, offset=offset, most=CHUNK_BYTES)

    def _drop_part(self) -> None:
        self._written = {}
        if self._part is not None:
            shutil.rmtree(self._part, ignore_errors=True)
            self._part = None

    def close(self) -> None:
        self._open.close()
