"""Requests of a process about its membership, which it sends to the coordinator: joining, heartbeats, leaving.

The operation travels in the CALL frame, so a request is known by its class alone. The client number of whoever asks is
that of the connection, which the token has authenticated; it is not repeated in the messages, except where a process
introduces itself.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from clickline.data.leasing.file_layout import FileLayout
from clickline.ps.protocol.refusals import Refusal

JsonObject = dict[str, Any]
"""A JSON object whose shape belongs to another module, such as a schema."""
Figures = dict[str, int | float | str | dict[str, int]]
"""What a process reports of itself: docs/reference/status.md lists the names, under Members."""


class MemberReply(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What every reply of a coordinator has."""

    writer_epoch: int = 0
    """The number of this coordinator among those of the run: replies of one that was replaced are not believed."""
    refusal: Refusal | None = None
    """Set if the request was not carried out; the other fields then have their defaults, unless they say otherwise."""


class MemberRequest(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What every request to a coordinator has."""

    operation: ClassVar[str]
    reply: ClassVar[type[MemberReply]]
    writer_epoch: int = 0
    """The number of the newest coordinator that the sender has heard of."""


class ServerLocation(msgspec.Struct, frozen=True, array_like=True):
    """Where a parameter server listens, and which process of its name it is."""

    rank: int
    address: str
    incarnation: int


class ServerList(msgspec.Struct, frozen=True):
    """All parameter servers, for trainers."""

    version: str
    """Another one after every change, and with every coordinator."""
    by_rank: list[ServerLocation]


class RunDirectory(msgspec.Struct, frozen=True):
    """The run's directory on the coordinator's host, by which another process finds out whether it sees it as well."""

    path: str
    nonce: str
    """Stands in the lock file of the directory, and is another one with each coordinator."""


class NameHolder(msgspec.Struct, frozen=True):
    """The process that holds a name which another one wants."""

    client: int
    host: str
    pid: int
    machine: str
    born: int
    silent: float
    """Seconds since it was last heard of."""
    warn_after: float
    """Seconds of silence after which the name is given to another."""


class NodeFiles(msgspec.Struct, frozen=True):
    """Files that a node has for itself, and where each can be cut."""

    train: list[FileLayout]
    valid: list[FileLayout] = []
    test: list[FileLayout] = []


class JoinReply(MemberReply):
    """The terms on which a process takes part. Refusals: name_held, not_ready, model_wanted, run_over."""

    incarnation: int = 0
    """Counts the processes that have had this name in the run."""
    generation: int = 0
    schema: JsonObject = {}
    """The meaning of rows, as data/schema.py writes it; also with model_wanted."""
    checkpoint: str | None = None
    """Servers: the checkpoint to load."""
    warm: str | None = None
    """Servers: the checkpoint whose weights the run began with."""
    directory: RunDirectory | None = None
    """Servers: where these checkpoints are."""
    hold: bool = False
    """Servers: load nothing before the coordinator orders it."""
    replaced_clients: list[int] = []
    """Servers: clients of which nothing may be executed any more."""
    pservers: list[str] = []
    """Trainers: the servers' addresses, by rank."""
    servers: ServerList | None = None
    """Trainers: the same, with incarnations."""
    step: int = 0
    holder: NameHolder | None = None
    """With name_held: the process that has the name."""


class JoinRequest(MemberRequest):
    """A process introduces itself under the name ROLE.RANK, and wants to take part."""

    operation: ClassVar[str] = "join"
    reply: ClassVar[type[MemberReply]] = JoinReply
    role: str
    rank: int
    client: int
    """The client number, drawn at random by each process."""
    address: str
    """Servers: where trainers reach it."""
    pid: int
    host: str
    machine: str = ""
    """Identifies the machine and its boot; pids are compared on one machine only."""
    born: int = 0
    """When the process started, in the kernel's ticks: tells it from a later one of the same pid."""
    node: int = 0
    """The node that the process runs on, as its launcher numbers them."""
    files: NodeFiles | None = None
    """Trainers, if nodes have data of their own: the files of this one."""
    incarnation: int = 0
    """0 for a process that joins for the first time."""
    again: bool = False
    """It has joined before: the coordinator is a new one, or had taken this process for dead."""
    generation: int | None = None
    """Servers: the generation that it serves; None if it has loaded nothing."""
    seen_dead: int = 0
    """The client number of a holder of the name that the sender has seen to be dead; 0 if there is none."""

    @property
    def name(self) -> str:
        return f"{self.role}.{self.rank}"


class ReadyReply(MemberReply):
    """Noted."""


class ReadyRequest(MemberRequest):
    """A server has loaded what it should serve."""

    operation: ClassVar[str] = "ready"
    reply: ClassVar[type[MemberReply]] = ReadyReply
    sees_directory: bool = True
    """Whether it reads and writes checkpoints in the run's directory; otherwise they travel over the network."""


class HeartbeatReply(MemberReply):
    """What everybody should know, as soon as it changes, else after one heartbeat interval. Refusal: not_a_member."""

    version: int = -1
    """Counts the changes."""
    pause: bool = False
    """Trainers: come to a halt with nothing under way, and say so by `paused`."""
    pause_at: int | None = None
    """Trainers in lockstep: come to a halt at this step."""
    stop: str | None = None
    """Why to end, if so."""
    generation: int = 0
    servers: ServerList | None = None
    """Trainers: set if the list has changed."""


class HeartbeatRequest(MemberRequest):
    """A sign of life with the process's figures; the coordinator holds it back until it has news."""

    operation: ClassVar[str] = "beat"
    reply: ClassVar[type[MemberReply]] = HeartbeatReply
    heard: int
    """The version that this process knows."""
    stats: Figures
    servers: str = ""
    """Version of the server list that it knows."""


class LeaveReply(MemberReply):
    """Noted."""


class LeaveRequest(MemberRequest):
    """The process ends in order: its leases go to others, and count against no piece of data."""

    operation: ClassVar[str] = "leave"
    reply: ClassVar[type[MemberReply]] = LeaveReply


REQUESTS: tuple[type[MemberRequest], ...] = (JoinRequest, ReadyRequest, HeartbeatRequest, LeaveRequest)
"""In the order in which a process uses them."""
