"""The parameter server: its buckets of every sparse table, its block of the dense parameters, and how they learn.

Rows travel natively, past Python: `PULL` and `PUSH` go straight to the tables. The calls beside them (dense parameters,
a synchronous step, an exchange of copies, the coordinator's orders) are in operations.py; operation_dispatch.py finds
them.
"""

from __future__ import annotations

import logging
import resource
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from clickline import _native
from clickline.config import Job
from clickline.data.embeddings import Embedding
from clickline.data.schema import Schema
from clickline.errors import PeerError
from clickline.ps.block_bounds import block_of
from clickline.ps.initial_model import InitialModel
from clickline.ps.protocol.member_messages import RunDirectory
from clickline.ps.protocol.pserver_messages import StatsReply
from clickline.ps.server.checkpoint_access import CheckpointAccess
from clickline.ps.server.dense_block import DenseBlock
from clickline.ps.server.dense_vectors import vectors
from clickline.ps.server.operation_dispatch import OperationDispatcher
from clickline.ps.server.sync_rounds import SyncRounds
from clickline.train.checkpoints import checkpoint_files
from clickline.train.frozen.frozen_names import frozen_numbers
from clickline.train.sparse_tables import build_tables, owned_buckets, settings_of

log = logging.getLogger("clickline.pserver")
_MODEL_PAUSE = 0.05
"""Seconds between two questions what the model is; the coordinator holds them back itself while it does not know."""


class _LoadGivenUp(Exception):
    """Raised inside a load when a newer generation is to be loaded instead, or the server stops."""


class ParameterServer:
    """One of `parts` servers. It answers from the start; tables open once the coordinator has told it what to load."""

    def __init__(self, *, job: Job, part: int, parts: int, address: str, token: bytes) -> None:
        self.job, self.part, self.parts = job, part, parts
        self.name = f"pserver.{part}"
        self.checkpoints = CheckpointAccess(
            name=self.name,
            transfer=job.checkpoint.transfer,
            buckets=owned_buckets(part=part, parts=parts),
        )
        self.tables: dict[str, _native.Table] = {}
        self.embeddings: Mapping[str, Embedding] = {}
        self.block: DenseBlock | None = None
        self.rounds: SyncRounds | None = None
        self.leases = LeaseProgress()
        self.incarnation = 0
        """Counts the processes that have had this name."""
        self.start: str | None = None
        """The checkpoint whose weights the run began with, where it is on this host."""
        self.stopped = threading.Event()
        self.fetch_model: Callable[[], InitialModel | None] = lambda: None
        """The model from the coordinator; None as long as no trainer has described it."""
        self._model: InitialModel | None = None
        self._schema: Schema | None = None
        self._schema_known = threading.Event()
        self._ready = threading.Event()
        self._loading = threading.Lock()
        self._wanted = 0
        """The newest generation that was to be loaded: a load of an older one is given up."""
        self._fenced: set[int] = set()
        self._dispatcher = OperationDispatcher(self)
        self.wire = _native.WireServer(
            address, token=token, job=job.name, name=self.name, handler=self._dispatcher.handle, answers_again=True
        )

    def set_up(self, schema: Schema, *, incarnation: int = 0, replaced: Sequence[int] = ()) -> None:
        """Take the schema, without which there are no tables, and the clients that were replaced."""
        self._schema, self.incarnation = schema, incarnation
        self.fence(replaced)
        self._schema_known.set()

    def hear_of_coordinator(self, epoch: int) -> None:
        """Note the writer epoch of a coordinator that was heard of: orders of earlier ones are refused from here on."""
        self._dispatcher.hear_of_coordinator(epoch)

    def load(
        self,
        checkpoint: str | None,
        *,
        generation: int,
        warm: str | None = None,
        directory: RunDirectory | None = None,
    ) -> bool:
        """Begin with a checkpoint, or else with the weights of another one, or with those that follow from the seed.

        One load at a time, and no two copies of the tables at once. False: it was given up, since a newer generation
        is to be loaded or the server stops.
        """
        # Noted before the lock is taken: a load that is under way looks at it between two tables, and gives up.
        self._wanted = max(self._wanted, generation)
        with self._loading:
            # Two gates: calls wait for `_ready`, PULL and PUSH while the wire is shut. A load that is given up leaves
            # both closed for the newer one, which waits for this lock and opens them.
            self._ready.clear()
            self.wire.shut()
            try:
                self._check_wanted(generation)
                self._load(
                    self._local(checkpoint, directory, generation=generation),
                    generation=generation,
                    warm=self._local(warm, directory, generation=generation),
                )
                self._check_wanted(generation)
            except _LoadGivenUp:
                why = "the server stops" if self.stopped.is_set() else f"generation {self._wanted} is wanted by now"
                log.info("generation %d is not loaded: %s", generation, why)
                return False
            self._ready.set()
            self.wire.open()
            return True

    def _local(self, checkpoint: str | None, directory: RunDirectory | None, *, generation: int) -> str | None:
        """Where a checkpoint is on this host, to which it may have to be fetched."""
        if checkpoint is None:
            return None
        return str(self.checkpoints.readable(checkpoint, directory, check=lambda: self._check_wanted(generation)))

    def _check_wanted(self, generation: int) -> None:
        if generation < self._wanted:
            raise _LoadGivenUp

    def _load(self, checkpoint: str | None, *, generation: int, warm: str | None) -> None:
        schema, model, job = self._known_schema(), self._known_model(generation), self.job
        first, last = block_of(len(model.values), part=self.part, parts=self.parts)
        frozen = frozen_numbers(model.shapes, job.train.frozen)
        block = DenseBlock(
            model.values[first:last],
            optimizer=job.train.optimizer,
            keep=job.train.average,
            frozen=None if frozen is None else frozen[first:last],
        )
        self.tables = {}
        tables = build_tables(embeddings=model.embeddings, tables=job.tables, slots=schema.slots, seed=job.seed)
        # The wire gets the new tables while they are empty: it lets go of those before them, whose memory is needed.
        for number, (name, table) in enumerate(tables.items()):
            rule = settings_of(model.embeddings[name], job.tables).optimizer.name
            damping = 0.0 if rule == "ftrl" else job.cluster.agree.damping  # ftrl's rate is that of all its past
            self.wire.add_table(number, table, damping=damping)
        start = checkpoint or warm
        if start is not None:
            saved = checkpoint_files.read(Path(start))
            buckets = owned_buckets(part=self.part, parts=self.parts)
            checkpoint_files.load_tables(
                saved, tables, buckets=buckets, before_each=lambda: self._check_wanted(generation)
            )
            arrays, steps = vectors(checkpoint_files.dense_arrays(saved), model, step=saved.step)
            if checkpoint is None:
                arrays = {name: arrays[name] for name in ("value", "average")}
            block.restore({name: a[first:last] if a.ndim else a for name, a in arrays.items()}, steps=steps)
            # Sequence numbers tell pushes that are in the checkpoint from those that are not. A server that was not
            # restarted has seen later ones than the checkpoint has.
            if checkpoint is not None and self.rounds is None:
                sequences = saved.manifest.get("sequences", {}).get(str(self.part), [])
                self.wire.restore_sequences([(client, lane, number) for client, lane, number in sequences])
        # All or nothing: an exception above, or a newer load, leaves no half-filled tables to answer from.
        self.tables, self.block = tables, block
        self.embeddings, self.start = model.embeddings, warm
        # Trainers that wait for a step of the old generation are told that it is over.
        if self.rounds is not None:
            self.rounds.abandon()
        self.rounds = SyncRounds(list(tables.values()), block, generation=generation)
        log.info("generation %d: %s", generation, "a fresh model" if start is None else f"loaded {start}")

    def _known_schema(self) -> Schema:
        # The coordinator knows this server's address before the server has the reply to its own joining, which brings
        # the schema: an order that waited for a server of this name may come in between.
        self._schema_known.wait(self.job.cluster.start_timeout)
        if self._schema is None:
            raise PeerError(f"{self.name} was told to load before it had the schema")
        return self._schema

    def _known_model(self, generation: int) -> InitialModel:
        # No limit: the trainer that describes it may still be starting; the coordinator says if that takes too long.
        while self._model is None:
            self._check_wanted(generation)
            if self.stopped.is_set():
                raise _LoadGivenUp
            self._model = self.fetch_model()
            if self._model is None:
                self.stopped.wait(_MODEL_PAUSE)
        return self._model

    @property
    def loaded(self) -> bool:
        """Whether this server holds its part of the model, and so answers trainers."""
        return self._ready.is_set()

    def await_loaded(self) -> None:
        """Return once a model is loaded; raise PeerError if the server is closed first."""
        while not self._ready.wait(1.0):
            if self.stopped.is_set():
                raise PeerError(f"{self.name} is stopping")

    @property
    def generation(self) -> int:
        return 0 if self.rounds is None else self.rounds.generation

    @property
    def loaded_block(self) -> DenseBlock:
        if self.block is None:
            raise PeerError(f"{self.name} has loaded nothing yet")
        return self.block

    @property
    def loaded_rounds(self) -> SyncRounds:
        if self.rounds is None:
            raise PeerError(f"{self.name} has loaded nothing yet")
        return self.rounds

    def table(self, number: int) -> _native.Table:
        tables = list(self.tables.values())
        if not 0 <= number < len(tables):
            raise PeerError(f"{self.name} has {len(tables)} tables, not one with the number {number}")
        return tables[number]

    def stats(self) -> StatsReply:
        """Figures for the coordinator and for metrics."""
        counters = dict(self.wire.counters())
        return StatsReply(
            tables={name: len(table) for name, table in self.tables.items()},
            memory_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            staleness=counters.get("staleness_sum", 0) / max(counters.get("pushes", 0), 1),
            counters=counters,
        )

    def fence(self, clients: Sequence[int]) -> None:
        """Execute nothing of these any more: others go on with their work, and count from what is here now."""
        for client in sorted({*clients} - self._fenced):
            self._fenced.add(client)
            self.wire.fence(client)

    def close(self) -> None:
        self.stopped.set()
        self._schema_known.set()  # a load that waits for the schema gives up
        if self.rounds is not None:
            self.rounds.abandon()
        self.wire.close()
        self.checkpoints.close()


class LeaseProgress:
    """How many rows of each lease have arrived at this server, beside what the wire counts of pushes."""

    def __init__(self) -> None:
        self.begun: dict[int, int] = {}
        """Rows of which something has arrived."""
        self.done: dict[int, int] = {}
        """Rows of which everything has arrived."""

    def forget(self, leases: Sequence[int]) -> None:
        for lease in leases:
            self.begun.pop(lease, None)
            self.done.pop(lease, None)
