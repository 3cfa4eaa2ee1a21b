"""A file of a checkpoint that comes over the network in chunks, compared with its digest at the end."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from clickline.errors import CheckpointError
from clickline.train.checkpoints.checkpoint_digests import FileDigest, damage


class ReceivedFile:
    """Written as its chunks arrive. `complete` once it has the size and the digest that were announced."""

    def __init__(self, directory: Path, name: str, expected: FileDigest, *, sender: str) -> None:
        """`name` is what the sender calls it, so it must not lead out of the directory."""
        if "/" in name or name.startswith("."):
            raise CheckpointError(f"from {sender}: the file name {name!r} leaves the checkpoint's directory")
        self.path, self._expected, self._sender = directory / name, expected, sender
        self.received = 0
        """Bytes so far: where the next chunk begins."""
        self.complete = False
        self._digest = hashlib.sha256()
        try:
            self.path.unlink(missing_ok=True)  # of a try before
            self._file = self.path.open("xb")
        except OSError as error:
            raise self._unwritable(error) from error

    def take(self, content: NDArray[Any]) -> None:
        """Append the next chunk. Raises CheckpointError if the file is not what was announced."""
        self._digest.update(content.data)
        self.received += content.nbytes
        # A chunk without bytes is the end of the file as its sender has it.
        last = not content.nbytes or self.received >= self._expected["bytes"]
        try:
            self._file.write(content.data)
            if last:
                self._file.flush()
                os.fsync(self._file.fileno())
        except OSError as error:
            raise self._unwritable(error) from error
        if not last:
            return
        self.close()
        seen: FileDigest = {"bytes": self.received, "sha256": self._digest.hexdigest()}
        if seen != self._expected:
            raise CheckpointError(f"from {self._sender}: {damage(self.path, seen=seen, listed=self._expected)}")
        self.complete = True

    def _unwritable(self, error: OSError) -> CheckpointError:
        return CheckpointError(f"{self.path}: cannot be written: {error}")

    def close(self) -> None:
        with suppress(OSError):  # what is buffered may not fit on the disk: then `take` has said so
            self._file.close()


def read_chunk(path: Path, *, offset: int, most: int) -> bytes:
    """At most so many bytes of a file from an offset on; none at its end."""
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(most)
