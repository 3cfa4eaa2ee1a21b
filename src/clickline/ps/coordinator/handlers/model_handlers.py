"""Handlers of what the model is, which the coordinator hears from a trainer and tells to servers."""

from __future__ import annotations

from clickline.errors import PeerError
from clickline.ps.coordinator.handlers.context import REPLY_WITHIN, Caller, HandlerContext
from clickline.ps.protocol.framing import Arrays
from clickline.ps.protocol.model_messages import (
    DescribeModelReply,
    DescribeModelRequest,
    ModelReply,
    ModelRequest,
    described,
    model_in,
)
from clickline.ps.protocol.refusals import ErrorCode, Refusal


def describe_model(
    context: HandlerContext, caller: Caller, request: DescribeModelRequest, arrays: Arrays
) -> DescribeModelReply:
    """Keep the model, for servers and for checkpoints. All trainers build the same: the first is as good as any."""
    state = context.state
    # Several trainers may have been asked before the first one answered.
    if state.model is None:
        state.model = model_in(request.model, arrays)
        state.changed.notify_all()
    return DescribeModelReply()


def not_asked(context: HandlerContext) -> DescribeModelReply:
    return DescribeModelReply(refusal=Refusal(ErrorCode.NOT_A_MEMBER))


def model(context: HandlerContext, caller: Caller, request: ModelRequest, arrays: Arrays) -> ModelReply:
    """Wait for a trainer to describe the model."""
    state = context.state
    if not state.changed.wait_for(lambda: state.model is not None or state.lifecycle.stop_reason, REPLY_WITHIN):
        return ModelReply(refusal=Refusal(ErrorCode.NOT_READY, "a trainer to describe the model"))
    if state.model is None:
        return ModelReply(refusal=Refusal(ErrorCode.RUN_OVER, state.lifecycle.stop_reason or ""))
    return ModelReply()


def not_a_member(context: HandlerContext) -> ModelReply:
    return ModelReply(refusal=Refusal(ErrorCode.NOT_A_MEMBER))


def model_content(context: HandlerContext, request: ModelRequest) -> tuple[ModelReply, Arrays]:
    """What the model is."""
    known = context.state.model
    if known is None:
        raise PeerError("the model is not known")
    description, arrays = described(known)
    return ModelReply(model=description), arrays
