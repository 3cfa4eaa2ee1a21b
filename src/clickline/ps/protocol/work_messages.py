"""Requests of a trainer about its work, which it sends to the coordinator: leases, reports, pauses."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

import msgspec

from clickline.data.leasing.pieces import Piece
from clickline.ps.protocol.member_messages import MemberReply, MemberRequest


class Action(StrEnum):
    """What a trainer should do next."""

    TRAIN = "train"
    """Train on the leased piece."""
    VALIDATE = "valid"
    """Predict the leased piece of the validation data."""
    TEST = "test"
    """Predict the leased piece of the test data."""
    WAIT = "wait"
    """Send what is held back, then ask again."""
    STOP = "stop"
    """End: the run is over."""
    JOIN = "join"
    """Join again: the coordinator has taken this process for dead."""


class Round(msgspec.Struct, frozen=True, array_like=True):
    """The rounds of one epoch in one generation; lockstep only."""

    generation: int
    epoch: int


class WorkItem(msgspec.Struct, frozen=True, kw_only=True):
    """A leased piece of data."""

    lease: int
    skip: int
    """Rows of the piece that were trained under earlier leases."""
    piece: Piece
    epoch: int
    generation: int
    start: int
    """The step at which this epoch began, or was taken up."""
    last_step: int
    """The step with which the run ends; 0 if there is no limit."""
    warm: bool
    """The run began with given weights, from which servers restart rows."""


class NextReply(MemberReply):
    """Work, or what to do without any."""

    do: Action = Action.WAIT
    work: WorkItem | None = None
    """With train, valid and test."""
    generation: int = 0
    drained: Round | None = None
    """Lockstep: there is no more data for this trainer in this round, so it must leave it."""
    why: str | None = None
    """With stop: the reason."""


class NextRequest(MemberRequest):
    """A trainer asks for work."""

    operation: ClassVar[str] = "next"
    reply: ClassVar[type[MemberReply]] = NextReply
    left: Round | None = None
    """The round that it has left for want of data."""
    holding: bool = False
    """It has something to send to the servers first if there is no work, so it must not be kept waiting."""
    leases: list[int] | None = None
    """The leases that it knows it has: another one in its name is one whose reply was lost, and is offered again."""


class FinishedReply(MemberReply):
    """Whether the rows count."""

    counted: bool = False
    """False if the lease was taken back before, or is of another generation: others train the piece."""


class FinishedRequest(MemberRequest):
    """A piece is done. Arrays, of an evaluation: logits, labels, and weights and groups where the data has them."""

    operation: ClassVar[str] = "finished"
    reply: ClassVar[type[MemberReply]] = FinishedReply
    lease: int
    rows: int
    """Rows of the piece, those skipped included."""
    generation: int


class FailedReply(MemberReply):
    """Noted."""


class FailedRequest(MemberRequest):
    """A trainer cannot go on for a reason that would stop any other one: the run ends."""

    operation: ClassVar[str] = "failed"
    reply: ClassVar[type[MemberReply]] = FailedReply
    reason: str


class PausedReply(MemberReply):
    """How to go on after a pause."""

    wait: bool = False
    """The pause is not over: ask again."""
    abandon: bool = False
    """The lease is void: ask for other work."""
    generation: int = 0


class PausedRequest(MemberRequest):
    """A trainer stands still with nothing under way. Arrays: the model's buffers, by name."""

    operation: ClassVar[str] = "paused"
    reply: ClassVar[type[MemberReply]] = PausedReply
    rank: int
    progress: list[tuple[int, int]]
    """Its leases, each with the rows that are done."""
    generation: int
    step: int


class ReportReply(MemberReply):
    """Noted."""


class ReportRequest(MemberRequest):
    """Batches that were trained. Arrays: losses, sizes and steps by batch; logits, labels and weights by row."""

    operation: ClassVar[str] = "report"
    reply: ClassVar[type[MemberReply]] = ReportReply
    generation: int
    step: int
    """Of the last batch."""
    tick: int
    """The newest time that rows were stamped with."""


REQUESTS: tuple[type[MemberRequest], ...] = (
    NextRequest,
    ReportRequest,
    PausedRequest,
    FinishedRequest,
    FailedRequest,
)
"""In the order in which a trainer uses them."""
