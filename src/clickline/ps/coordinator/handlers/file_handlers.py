"""Handlers of requests for files of checkpoints, from servers that do not see the run's directory."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from clickline.errors import CheckpointError
from clickline.ps.coordinator.handlers.context import Caller, HandlerContext
from clickline.ps.protocol.file_messages import CHUNK_BYTES, CheckpointFileReply, CheckpointFileRequest
from clickline.ps.protocol.framing import Arrays
from clickline.ps.protocol.refusals import ErrorCode, Refusal
from clickline.train.checkpoints import checkpoint_files
from clickline.train.checkpoints.checkpoint_directories import MANIFEST
from clickline.train.checkpoints.received_file import read_chunk


def checkpoint_file(
    context: HandlerContext, caller: Caller, request: CheckpointFileRequest, arrays: Arrays
) -> CheckpointFileReply:
    """Whether the checkpoint is one that servers are to load: files of no other directory are handed out."""
    state = context.state
    if request.checkpoint in {state.lifecycle.served_checkpoint, state.record.checkpoint, state.record.warm} - {None}:
        return CheckpointFileReply()
    return _no_such_file(f"{request.checkpoint} is not what this run loads")


def file_content(context: HandlerContext, request: CheckpointFileRequest) -> tuple[CheckpointFileReply, Arrays]:
    """A chunk of a file that the checkpoint's manifest lists, or of the manifest."""
    path = Path(request.checkpoint)
    try:
        if request.file != MANIFEST and request.file not in checkpoint_files.read(path).manifest["files"]:
            return _no_such_file(f"{path} has no file {request.file!r}"), {}
        content = read_chunk(path / request.file, offset=request.offset, most=CHUNK_BYTES)
    except (OSError, CheckpointError) as error:
        return _no_such_file(str(error)), {}
    return CheckpointFileReply(), {"content": np.frombuffer(content, np.uint8)}


def _no_such_file(message: str) -> CheckpointFileReply:
    return CheckpointFileReply(refusal=Refusal(ErrorCode.NO_SUCH_FILE, message))
