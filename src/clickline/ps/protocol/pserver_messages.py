"""Requests that trainers and the coordinator send to a parameter server, and its replies.

Rows are pulled and pushed by frames of their own, past Python: docs/reference/wire.md. These are the calls beside them.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from clickline.ps.protocol.member_messages import Figures, RunDirectory
from clickline.ps.protocol.refusals import Refusal
from clickline.train.checkpoints.checkpoint_digests import FileDigest


class ServerReply(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What every reply of a server has."""

    writer_epoch: int = 0
    """With coordinator_replaced: the number of the newest coordinator that this server knows."""
    refusal: Refusal | None = None


class ServerRequest(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What every request to a server has."""

    operation: ClassVar[str]
    reply: ClassVar[type[ServerReply]]
    writer_epoch: int | None = None
    """Of the coordinator that asks: a server that knows a newer one refuses. None: a trainer asks."""
    order: str = ""
    """Identifies an order of the coordinator: one that is sent again is answered again, and not carried out again."""


# Requests of trainers


class DenseReply(ServerReply):
    """Array: `values`, the server's block, if it was wanted."""

    steps: int = 0
    """Dense steps that the block has taken."""


class DenseRequest(ServerRequest):
    """Learn from the array `gradient`, or move by the array `difference`, or neither; then answer with values."""

    operation: ClassVar[str] = "dense"
    reply: ClassVar[type[ServerReply]] = DenseReply
    want: str = ""
    """`values`, `average`, or empty for nothing."""
    lease: int = 0
    done: int = 0
    """Rows of the lease's piece that have arrived once this is applied: it is sent after the rows of its batch."""
    wire: str = "fp32"
    """Number format in which values travel back."""


class SyncReply(ServerReply):
    """Array: `values`, the block after the step. Refusal: generation_over."""

    step: int = 0


class SyncRequest(ServerRequest):
    """A trainer's share of a synchronous step; answered once all shares are merged and applied.

    Arrays: `dense`, and for each table by its number `N.keys`, `N.slots`, `N.shows`, `N.clicks`, `N.values`.
    """

    operation: ClassVar[str] = "sync"
    reply: ClassVar[type[ServerReply]] = SyncReply
    generation: int
    rank: int
    step: int
    weight: float
    """Rows of the batch, weighted: a step is the mean over all rows, not over trainers."""
    tick: int
    wire: str = "fp32"


class LeaveRoundReply(ServerReply):
    """Noted."""


class LeaveRoundRequest(ServerRequest):
    """A trainer has no more data in this epoch: the others go on without it."""

    operation: ClassVar[str] = "leave_round"
    reply: ClassVar[type[ServerReply]] = LeaveRoundReply
    rank: int
    generation: int


class RowsReply(ServerReply):
    """Array: `rows`, in the order of the keys."""


class RowsRequest(ServerRequest):
    """Whole rows with their optimizer state, for a trainer that keeps copies. Array: `keys`."""

    operation: ClassVar[str] = "rows"
    reply: ClassVar[type[ServerReply]] = RowsReply
    table: int
    wire: str = "fp32"


class GeoReply(ServerReply):
    """Array: `rows`, as they are after the differences were added."""


class GeoRequest(ServerRequest):
    """The differences of a trainer's copies of rows. Arrays: `keys`, `rows`, `slots`, `shows`, `clicks`."""

    operation: ClassVar[str] = "geo"
    reply: ClassVar[type[ServerReply]] = GeoReply
    table: int
    tick: int
    lease: int
    done: int
    wire: str = "fp32"


# Orders of the coordinator


class LoadReply(ServerReply):
    """Loaded, or given up because a newer generation is wanted by now."""


class LoadRequest(ServerRequest):
    """Begin a generation with a checkpoint, or with the weights of another one, or with fresh ones."""

    operation: ClassVar[str] = "load"
    reply: ClassVar[type[ServerReply]] = LoadReply
    checkpoint: str | None
    generation: int
    warm: str | None
    directory: RunDirectory | None = None


class RoundReply(ServerReply):
    """Noted."""


class RoundRequest(ServerRequest):
    """Lockstep: the trainers whose shares make a step, from here on."""

    operation: ClassVar[str] = "round"
    reply: ClassVar[type[ServerReply]] = RoundReply
    ranks: list[int]


class SaveReply(ServerReply):
    """What was written. Arrays: the dense block and its optimizer state. Refusal: checkpoint_failed."""

    files: dict[str, FileDigest] = {}
    """By name, what the manifest says of each file: size and digest."""
    directory: str = ""
    """The directory beside the staging directory in which they are; empty: at the server, to be fetched by `part`."""
    steps: int = 0
    sequences: list[tuple[int, int, int]] = []
    """Client, lane, and the last sequence number that was executed."""


class SaveRequest(ServerRequest):
    """Write this server's part of a checkpoint. Trainers have paused, so nothing is under way."""

    operation: ClassVar[str] = "save"
    reply: ClassVar[type[ServerReply]] = SaveReply
    staging: str
    """Directory of the checkpoint while it is being written."""
    directory: RunDirectory | None = None


class EpochReply(ServerReply):
    """Done. Refusal: checkpoint_failed."""


class EpochRequest(ServerRequest):
    """Begin another epoch: rows of tables with `restart_epochs` learn anew."""

    operation: ClassVar[str] = "epoch"
    reply: ClassVar[type[ServerReply]] = EpochReply


class SweepReply(ServerReply):
    """Done."""

    evicted: int = 0


class SweepRequest(ServerRequest):
    """Evict rows by the job's rules, and let counts decay."""

    operation: ClassVar[str] = "sweep"
    reply: ClassVar[type[ServerReply]] = SweepReply
    tick: int


class ProgressReply(ServerReply):
    """How far the pushes of each lease have come at this server: pairs of lease and rows."""

    begun: list[tuple[int, int]] = []
    """Of which something has arrived, in any table."""
    done: list[tuple[int, int]] = []
    """Of which everything has arrived, dense parameters included."""


class ProgressRequest(ServerRequest):
    """Ask how far leases have come, after which nothing of the replaced clients is executed."""

    operation: ClassVar[str] = "progress"
    reply: ClassVar[type[ServerReply]] = ProgressReply
    replaced_clients: list[int] = []


class ForgetReply(ServerReply):
    """Done."""


class ForgetRequest(ServerRequest):
    """Drop what is kept of leases before this one, and of clients that have died."""

    operation: ClassVar[str] = "forget"
    reply: ClassVar[type[ServerReply]] = ForgetReply
    before: int
    clients: list[int]


class StatsReply(ServerReply):
    """The server's figures."""

    tables: dict[str, int] = {}
    """Rows of each table."""
    memory_mib: float = 0.0
    staleness: float = 0.0
    counters: dict[str, int] = {}

    def figures(self) -> Figures:
        """As a heartbeat reports them."""
        return {
            "tables": self.tables,
            "memory_mib": self.memory_mib,
            "staleness": self.staleness,
            "counters": self.counters,
        }


class StatsRequest(ServerRequest):
    """Ask for a server's figures; with a writer_epoch, also whether that coordinator is still the newest."""

    operation: ClassVar[str] = "stats"
    reply: ClassVar[type[ServerReply]] = StatsReply


REQUESTS: tuple[type[ServerRequest], ...] = (
    DenseRequest,
    SyncRequest,
    LeaveRoundRequest,
    RowsRequest,
    GeoRequest,
    LoadRequest,
    RoundRequest,
    SaveRequest,
    EpochRequest,
    SweepRequest,
    ProgressRequest,
    ForgetRequest,
    StatsRequest,
)
"""All operations of a parameter server: those of trainers, then those of the coordinator."""
