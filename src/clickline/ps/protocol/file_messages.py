"""Requests for files of checkpoints, between processes that do not share the run's directory.

A parameter server that does not see the directory writes its part of a checkpoint to a disk of its own, from where the
coordinator fetches it; and fetches from the coordinator what it is to load. Contents travel in chunks, and whoever
fetched a file compares it with the size and digest that it was told before.
"""

from __future__ import annotations

from typing import ClassVar

from clickline.ps.protocol.member_messages import MemberReply, MemberRequest
from clickline.ps.protocol.pserver_messages import ServerReply, ServerRequest

CHUNK_BYTES = 4 << 20
"""A frame is sent and received as a whole, and both sides hold it in memory."""


class CheckpointFileReply(MemberReply):
    """Array: `content`, the bytes from the offset on, at most 4 MiB; empty at the end. Refusal: no_such_file."""


class CheckpointFileRequest(MemberRequest):
    """A server asks for a file of the checkpoint that it is to load, or of the one that the run began with."""

    operation: ClassVar[str] = "checkpoint_file"
    reply: ClassVar[type[MemberReply]] = CheckpointFileReply
    checkpoint: str
    """As the coordinator names it: its path on the coordinator's host."""
    file: str
    offset: int


class PartReply(ServerReply):
    """Array: `content`, the bytes from the offset on, at most 4 MiB; empty at the end. Refusal: no_such_file."""


class PartRequest(ServerRequest):
    """The coordinator asks for a file that the server has written at the last `save`; no name: for nothing."""

    operation: ClassVar[str] = "part"
    reply: ClassVar[type[ServerReply]] = PartReply
    file: str
    offset: int


TO_COORDINATOR: tuple[type[MemberRequest], ...] = (CheckpointFileRequest,)
TO_SERVER: tuple[type[ServerRequest], ...] = (PartRequest,)
