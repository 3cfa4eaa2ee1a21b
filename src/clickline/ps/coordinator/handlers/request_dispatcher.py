"""From a CALL frame to the handler of its request: what every request has to pass before a handler sees it.

In this order: the operation exists, the message is of its type, this coordinator is the newest that the sender knows,
the sender was not replaced, and it is admitted as the operation demands. Whether it was replaced is asked again after
the handler: it may have waited.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from clickline.errors import PeerError
from clickline.ps.coordinator.handlers import file_handlers, membership_handlers, model_handlers, work_handlers
from clickline.ps.coordinator.handlers.context import Caller, HandlerContext
from clickline.ps.protocol import file_messages, member_messages, model_messages, work_messages
from clickline.ps.protocol.framing import Arrays, pack, unpack
from clickline.ps.protocol.member_messages import MemberReply, MemberRequest
from clickline.ps.protocol.refusals import ErrorCode, Refusal


class AdmissionRule(Enum):
    """Whose requests an operation takes."""

    ANYONE = auto()
    ASKED = auto()
    """Of processes that have joined, or would have but for the model that they were asked to describe."""
    JOINED = auto()
    """Of processes that have joined this run, be it with a coordinator before this one. They may count as dead: what
    they have done still counts where nobody else has done it."""
    LIVING = auto()
    """Of members that are not dead."""


@dataclass(frozen=True, slots=True)
class MemberOperation:
    """One entry of the table."""

    request: type[MemberRequest]
    handler: Callable[[HandlerContext, Caller, Any, Arrays], MemberReply]
    admission: AdmissionRule
    otherwise: Callable[[HandlerContext], MemberReply] = lambda context: MemberReply()
    """The reply to a process that is not admitted."""
    read_content: Callable[[HandlerContext, Any], tuple[MemberReply, Arrays]] | None = None
    """Answers in place of a reply without refusal, and without the state's lock: it reads files."""


OPERATIONS: dict[str, MemberOperation] = {
    operation.request.operation: operation
    for operation in (
        MemberOperation(member_messages.JoinRequest, membership_handlers.join, AdmissionRule.ANYONE),
        MemberOperation(
            model_messages.DescribeModelRequest,
            model_handlers.describe_model,
            AdmissionRule.ASKED,
            model_handlers.not_asked,
        ),
        MemberOperation(
            model_messages.ModelRequest,
            model_handlers.model,
            AdmissionRule.JOINED,
            model_handlers.not_a_member,
            read_content=model_handlers.model_content,
        ),
        MemberOperation(member_messages.ReadyRequest, membership_handlers.ready, AdmissionRule.JOINED),
        MemberOperation(
            member_messages.HeartbeatRequest,
            membership_handlers.heartbeat,
            AdmissionRule.LIVING,
            membership_handlers.not_a_member,
        ),
        MemberOperation(member_messages.LeaveRequest, membership_handlers.leave, AdmissionRule.JOINED),
        MemberOperation(work_messages.NextRequest, work_handlers.next_work, AdmissionRule.LIVING, work_handlers.rejoin),
        MemberOperation(work_messages.PausedRequest, work_handlers.paused, AdmissionRule.JOINED, work_handlers.abandon),
        MemberOperation(work_messages.ReportRequest, work_handlers.report, AdmissionRule.JOINED),
        MemberOperation(
            work_messages.FinishedRequest, work_handlers.finished, AdmissionRule.JOINED, work_handlers.not_counted
        ),
        MemberOperation(work_messages.FailedRequest, work_handlers.failed, AdmissionRule.ASKED),
        MemberOperation(
            file_messages.CheckpointFileRequest,
            file_handlers.checkpoint_file,
            AdmissionRule.JOINED,
            read_content=file_handlers.file_content,
        ),
    )
}
"""By the name that travels in the CALL frame."""


class RequestDispatcher:
    """Answers requests, each on one of the wire's threads."""

    def __init__(self, context: HandlerContext) -> None:
        self._context = context

    def handle(self, name: str, client: int, operation: str, body: memoryview) -> list[Any]:
        """The reply to a request, as the buffers that make it up."""
        entry = OPERATIONS.get(operation)
        if entry is None:
            raise PeerError(f"the coordinator has no operation {operation!r}; it has {', '.join(OPERATIONS)}")
        request, arrays = unpack(body, entry.request)
        state = self._context.state
        epoch = state.record_file.epoch
        with state.changed:
            # The sender has talked to a successor: this process was cut off for a while and must not decide anything.
            if request.writer_epoch > epoch:
                state.supersede(f"{name} follows a newer coordinator: this one was replaced")
            reply = self._refusal(client)
            if reply is None:
                reply = self._answer(entry, client, request, arrays)
                # The handler may have waited, and the process may have been replaced meanwhile, or this coordinator.
                reply = self._refusal(client) or reply
        content: Arrays = {}
        if entry.read_content is not None and reply.refusal is None:
            reply, content = entry.read_content(self._context, request)
        reply.writer_epoch = epoch
        return pack(reply, content)

    def _refusal(self, client: int) -> MemberReply | None:
        """Why nothing is answered, if so: this coordinator does not count any more, or the process does not."""
        state = self._context.state
        if state.lifecycle.superseded is not None:
            return MemberReply(refusal=Refusal(ErrorCode.COORDINATOR_REPLACED, state.lifecycle.superseded))
        if (why := state.incarnations.replacement_of(client)) is not None:
            return MemberReply(refusal=Refusal(ErrorCode.PROCESS_REPLACED, why))
        return None

    def _answer(self, entry: MemberOperation, client: int, request: MemberRequest, arrays: Arrays) -> MemberReply:
        state = self._context.state
        caller = Caller(client, state.members.living(client))
        joined = state.incarnations.admitted(client)
        admitted = {
            AdmissionRule.ANYONE: True,
            AdmissionRule.ASKED: joined or client in state.asked_for_model,
            AdmissionRule.JOINED: joined,
            AdmissionRule.LIVING: caller.member is not None,
        }[entry.admission]
        return entry.handler(self._context, caller, request, arrays) if admitted else entry.otherwise(self._context)
