"""A file of a checkpoint that comes over the network in chunks, compared with its digest at the end."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from clickline.errors import CheckpointError
from clickline.train.checkpoints.checkpoint_digests import FileDigest, damage


class ReceivedFile:
    """Written as its chunks arrive. `complete` once it has the size and the digest that were announced."""

    def __init__(self, path: Path, expected: FileDigest, *, sender: str) -> None:
        self.path, self._expected, self._sender = path, expected, sender
        self.received = 0
        """Bytes so far: where the next chunk begins."""
        self.complete = False
        self._digest = hashlib.sha256()
        self._file = path.open("xb")

    def take(self, content: NDArray[Any]) -> None:
        """Append the next chunk. Raises CheckpointError if the file is not what was announced."""
        self._file.write(content.data)
        self._digest.update(content.data)
        self.received += content.nbytes
        # A chunk without bytes is the end of the file as its sender has it.
        if content.nbytes and self.received < self._expected["bytes"]:
            return
        self._file.flush()
        os.fsync(self._file.fileno())
        self.close()
        seen: FileDigest = {"bytes": self.received, "sha256": self._digest.hexdigest()}
        if seen != self._expected:
            raise CheckpointError(f"from {self._sender}: {damage(self.path, seen=seen, listed=self._expected)}")
        self.complete = True

    def close(self) -> None:
        self._file.close()


def read_chunk(path: Path, *, offset: int, most: int) -> bytes:
    """At most so many bytes of a file from an offset on; none at its end."""
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(most)
