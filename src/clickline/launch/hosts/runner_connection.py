"""Connections to the runners of hosts as a run has them, whichever launcher makes them, and what comes over them."""

from __future__ import annotations

import queue
from dataclasses import dataclass
from typing import Protocol

from clickline.errors import PeerError
from clickline.launch.hosts.host_messages import HostPlan, LauncherMessage, RunnerEvent


@dataclass(frozen=True, slots=True)
class ConnectionLost:
    """The connection has ended before the runner said that it was done."""

    reason: str
    for_good: bool = False
    """Whether nothing will be reached there again."""


@dataclass(frozen=True, slots=True)
class HostMoved:
    """The processes of a host that was lost have been placed on another."""

    name: str


HostEvent = RunnerEvent | ConnectionLost | HostMoved
EventQueue = queue.Queue[tuple[int, HostEvent]]
"""Pairs of a host's number and an event of it."""


class RunnerConnection(Protocol):
    """A connection to the runner of one host.

    Its events go to the queue; the last one is RunnerDone or ConnectionLost.
    """

    def send(self, message: LauncherMessage) -> None:
        """Tell the runner something; whether it has heard it is not known."""

    def stop(self) -> None:
        """Have the runner stop its processes and end."""

    def close(self, *, within: float) -> bool:
        """Wait for the end of the connection; end it if it does not come. Whether it came by itself."""


class HostAccess(Protocol):
    """How a launcher reaches its hosts."""

    def connect(self, plan: HostPlan, events: EventQueue) -> RunnerConnection:
        """Start the runner of a host, with its plan."""

    def is_reachable(self, plan: HostPlan) -> bool:
        """Whether a runner could be started on a host whose connection was lost."""


class HostLost(PeerError):
    """A host has been gone for too long, and the run cannot do without it."""

    def __init__(self, message: str, *, node: int) -> None:
        super().__init__(message)
        self.node = node
