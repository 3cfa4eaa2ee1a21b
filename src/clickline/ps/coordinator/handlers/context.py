"""What every handler gets: the run's state, and who is asking."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from clickline.errors import PeerError
from clickline.ps.coordinator.state.failures import FailureDetector
from clickline.ps.coordinator.state.members import Member
from clickline.ps.coordinator.state.run_state import RunState

REPLY_WITHIN = 2.0
"""Seconds for which a request may be held back; the member asks again after that."""


@dataclass(frozen=True, slots=True)
class HandlerContext:
    """What handlers work on. They are called with the state's lock held, and give it up while they wait."""

    state: RunState
    failures: FailureDetector
    on_report: Callable[[], None] = lambda: None
    """Batches were reported: lines of metrics may be due."""
    on_server_moved: Callable[[int, str], None] = lambda rank, address: None
    """A server of this rank has come back, and listens there."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The process that sent a request, as its connection was authenticated."""

    client: int
    member: Member | None = None
    """Its entry among the members when the request arrived, if it is alive. It may die while the request waits."""

    @property
    def living(self) -> Member:
        """The same, for handlers that are only called for living members."""
        if self.member is None:
            raise PeerError(f"client {self.client:x} has not joined")
        return self.member
