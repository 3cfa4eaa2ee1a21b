"""Codes by which one process refuses another's request, so that nobody has to compare the words of a message."""

from __future__ import annotations

import re
from enum import StrEnum

import msgspec

from clickline.errors import PeerError


class ErrorCode(StrEnum):
    """Why a request was not carried out."""

    COORDINATOR_REPLACED = "coordinator_replaced"
    """A newer coordinator has the run; `writer_epoch` of the reply is the newest that is known."""
    PROCESS_REPLACED = "process_replaced"
    """Another process has the name of the one that asks, which must end (exit code 9)."""
    NAME_HELD = "name_held"
    """The name belongs to a process that may be alive; the one that joins waits, or gives up."""
    NOT_READY = "not_ready"
    """Something must happen first, named by the message; ask again."""
    MODEL_WANTED = "model_wanted"
    """Trainers: describe the model, which the coordinator does not know yet, and join again."""
    RUN_OVER = "run_over"
    """The run is ending, for the reason in the message."""
    NOT_A_MEMBER = "not_a_member"
    """The process that asks has not joined, or was taken for dead: join again."""
    GENERATION_OVER = "generation_over"
    """The request belongs to a generation that was rolled back."""
    NO_SUCH_FILE = "no_such_file"
    """The process that is asked for a file does not have it: it was started again, or the file is of another time."""
    CHECKPOINT_FAILED = "checkpoint_failed"
    """A file of a checkpoint could not be written or read: that ends the run, not the server."""


class Refusal(msgspec.Struct, frozen=True, omit_defaults=True):
    """A code for programs, and a message for people."""

    code: ErrorCode
    message: str = ""


class RemoteErrorType(StrEnum):
    """The error types that a program looks for in an ERROR frame, which has the form `TYPE: text`."""

    MODEL = "ModelError"
    """A server would not learn from what it was sent, such as a gradient that is not finite."""


_TYPE_IN_ERROR = re.compile(r": ([A-Za-z]+Error): ")


def remote_error_type(error: PeerError) -> RemoteErrorType | None:
    """The type at the head of an ERROR frame, which a Lane raises as `ADDRESS: TYPE: text`; None if it is another."""
    match = _TYPE_IN_ERROR.search(str(error))
    return RemoteErrorType(match[1]) if match is not None and match[1] in set(RemoteErrorType) else None
