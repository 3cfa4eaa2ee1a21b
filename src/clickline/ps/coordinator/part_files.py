"""Fetches the files of a checkpoint that servers without the run's directory have written on their own hosts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from clickline.ps.protocol.file_messages import PartReply, PartRequest
from clickline.ps.protocol.framing import Arrays
from clickline.ps.protocol.refusals import ErrorCode
from clickline.train.checkpoints.checkpoint_digests import FileDigest
from clickline.train.checkpoints.received_file import ReceivedFile

AskAll = Callable[[list[PartRequest]], list[tuple[PartReply, Arrays]]]
"""Sends each server a request, all at the same time, and returns their replies."""


class _Part:
    """The files of one server, received one after the other."""

    def __init__(self, rank: int, files: Mapping[str, FileDigest], *, staging: Path) -> None:
        self._sender, self._staging = f"pserver.{rank}", staging
        self._left = list(files.items())
        self._file: ReceivedFile | None = None

    def next_request(self) -> PartRequest:
        """What to ask for next; no file once all are here."""
        if self._file is None and self._left:
            name, digest = self._left.pop(0)
            self._file = ReceivedFile(self._staging, name, digest, sender=self._sender)
        if self._file is None:
            return PartRequest(file="", offset=0)
        return PartRequest(file=self._file.path.name, offset=self._file.received)

    def take(self, arrays: Arrays) -> None:
        if self._file is not None:
            self._file.take(arrays["content"])
            if self._file.complete:
                self._file = None

    @property
    def complete(self) -> bool:
        return self._file is None and not self._left

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def fetch_parts(ask_all: AskAll, files: Mapping[int, Mapping[str, FileDigest]], *, staging: Path, servers: int) -> bool:
    """Fetch files into the staging directory: `files` by server. False: a server does not have them any more."""
    parts = [_Part(rank, files.get(rank, {}), staging=staging) for rank in range(servers)]
    try:
        while not all(part.complete for part in parts):
            # One chunk of each server at a time, so that all their links are in use.
            for part, (reply, arrays) in zip(parts, ask_all([part.next_request() for part in parts]), strict=True):
                if reply.refusal is not None and reply.refusal.code == ErrorCode.NO_SUCH_FILE:
                    return False
                part.take(arrays)
    finally:
        for part in parts:
            part.close()
    return True
