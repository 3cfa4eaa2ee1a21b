"""The parameter server: its buckets of every sparse table, its block of the dense parameters, and how they learn.

Rows travel natively, past this file: `PULL` and `PUSH` go straight to the tables. What comes here are a few calls for
each step (dense parameters, a synchronous step, an exchange of copies) and the coordinator's orders.
"""

from __future__ import annotations

import logging
import resource
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray

from clickline import _native
from clickline.config import Job
from clickline.data.schema import Schema
from clickline.errors import CheckpointError, PeerError
from clickline.ps.coordinator.pserver_admin import part_of
from clickline.ps.messages import pack, unpack
from clickline.ps.server.sync_rounds import Rounds
from clickline.train.checkpoints import checkpoint_files
from clickline.train.checkpoints.warm_start import restart_rows
from clickline.train.flat_parameters import DenseBlock, Flat, block_of
from clickline.train.model_factory import build
from clickline.train.sparse_tables import build_tables, owned_buckets, settings_of

log = logging.getLogger("clickline.pserver")
Arrays = dict[str, NDArray[Any]]


class _Overtaken(Exception):
    """Something newer is to be loaded."""


class ParameterServer:
    """One of `parts` servers. It answers from the start; tables open once the coordinator has told it what to load."""

    def __init__(self, *, job: Job, part: int, parts: int, address: str, token: bytes) -> None:
        self.job, self.part, self.parts = job, part, parts
        self.tables: dict[str, _native.Table] = {}
        self.block: DenseBlock | None = None
        self.rounds: Rounds | None = None
        self._schema: Schema | None = None
        self._set_up = threading.Event()
        self._ready = threading.Event()
        self._ordering = threading.Lock()
        self._ordered: tuple[str, list[Any]] = ("", [])
        """The coordinator's last order and what was answered: one that is sent again is not done again."""
        self._loading = threading.Lock()
        self._wanted = 0
        """The newest generation that was to be loaded: a load of an older one is given up."""
        self.incarnation = 0
        """Which process of its name this is."""
        self.writer_epoch: Callable[[], int] = lambda: 0
        """Of the newest coordinator that has been heard of: an older one is not obeyed."""
        self._obeyed = 0
        self._start: str | None = None
        """The checkpoint whose weights the run began with."""
        self._fenced: set[int] = set()
        self._begun: dict[int, int] = {}
        self._done: dict[int, int] = {}
        """Rows of each lease of which something, and everything, has arrived here."""
        self.stopped = threading.Event()
        self.wire = _native.WireServer(
            address, token=token, job=job.name, name=f"pserver.{part}", handler=self._handle, answers_again=True
        )

    def set_up(self, schema: Schema, *, incarnation: int = 0, replaced: Sequence[int] = ()) -> None:
        """Know what rows mean, so that the model can be built, and which clients are none any more."""
        self._schema, self.incarnation = schema, incarnation
        self._fence(replaced)
        self._set_up.set()

    def load(self, checkpoint: str | None, *, generation: int, warm: str | None = None) -> bool:
        """Begin with a checkpoint, or else with the weights of another one, or with those that follow from the seed.

        One load at a time, and no two copies of the tables at once. False: a newer generation is to be loaded, so
        this one was given up.
        """
        self._wanted = max(self._wanted, generation)
        with self._loading:
            self._ready.clear()
            self.wire.shut()
            try:
                self._check(generation)
                self._load(checkpoint, generation=generation, warm=warm)
                self._check(generation)
            except _Overtaken:
                log.info("generation %d is not loaded: generation %d is wanted by now", generation, self._wanted)
                return False
            self._ready.set()
            self.wire.open()
            return True

    def _check(self, generation: int) -> None:
        if generation < self._wanted:
            raise _Overtaken

    def _load(self, checkpoint: str | None, *, generation: int, warm: str | None) -> None:
        # The coordinator knows this server's address before the server has the answer to its own joining, which brings
        # the schema: an order that waited for a server of this name may come in between.
        self._set_up.wait(self.job.cluster.start_timeout)
        schema = self._schema
        if schema is None:
            raise PeerError(f"pserver.{self.part} was told to load before it knew the schema")
        model = build(self.job, schema)
        flat = Flat(model)
        first, last = block_of(len(flat.values), part=self.part, parts=self.parts)
        job = self.job
        block = DenseBlock(flat.values[first:last], optimizer=job.train.optimizer, keep=job.train.average)
        self.tables = {}
        tables = build_tables(embeddings=model.embeddings, tables=job.tables, slots=schema.slots, seed=job.seed)
        for number, (name, table) in enumerate(tables.items()):  # before they are filled: those of before go first
            rule = settings_of(model.embeddings[name], self.job.tables).optimizer.name
            damping = 0.0 if rule == "ftrl" else self.job.cluster.agree.damping  # ftrl's rate is that of all its past
            self.wire.add_table(number, table, damping=damping)
        start = checkpoint or warm
        if start is not None:
            found = checkpoint_files.read(Path(start))
            buckets = owned_buckets(part=self.part, parts=self.parts)
            checkpoint_files.load_tables(found, tables, buckets=buckets, before_each=lambda: self._check(generation))
            tensors, steps = vectors(checkpoint_files.dense_tensors(found), flat, step=found.step)
            if checkpoint is None:
                tensors = {name: tensors[name] for name in ("value", "average")}
            block.restore({name: t[first:last] if t.dim() else t for name, t in tensors.items()}, steps=steps)
            kept = found.manifest.get("sequences", {}).get(str(self.part), []) if checkpoint else []
            if self.rounds is None:  # else this server has lived on, and knows better than a checkpoint
                self.wire.restore_sequences([(client, lane, last) for client, lane, last in kept])
        self.tables, self.block = tables, block
        self._embeddings, self._start = model.embeddings, warm
        if self.rounds is not None:
            self.rounds.abandon()
        self.rounds = Rounds(list(tables.values()), block, generation=generation)
        log.info("generation %d: %s", generation, "a fresh model" if start is None else f"loaded {start}")

    @property
    def generation(self) -> int:
        return 0 if self.rounds is None else self.rounds.generation

    def stats(self) -> dict[str, Any]:
        """For the coordinator and whoever watches."""
        counters = dict(self.wire.counters())
        pushes = max(counters.get("pushes", 0), 1)
        return {
            "tables": {name: len(table) for name, table in self.tables.items()},
            "memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            "staleness": counters.get("staleness_sum", 0) / pushes,
            "counters": counters,
        }

    def close(self) -> None:
        self.stopped.set()
        self._set_up.set()  # whoever waits for it waits in vain
        if self.rounds is not None:
            self.rounds.abandon()
        self.wire.close()

    def _handle(self, client: str, number: int, op: str, body: memoryview) -> list[Any]:
        action = getattr(self, f"_do_{op}", None)
        if action is None:
            raise PeerError(f"pserver.{self.part} knows no {op!r}")
        facts, arrays = unpack(body)
        if not self._obeys(facts):
            return pack({"overtaken": self._obeyed})
        if op != "load":
            while not self._ready.wait(1.0):
                if self.stopped.is_set():
                    raise PeerError(f"pserver.{self.part} is stopping")
        if self.wire.already_done():
            return self._answer_again(op, facts, arrays)
        reply: list[Any]
        if "order" not in facts:
            reply = action(facts, arrays)
            return reply
        with self._ordering:
            if not self._obeys(facts):  # a newer coordinator's order came first
                return pack({"overtaken": self._obeyed})
            if self._ordered[0] != facts["order"]:
                self._ordered = facts["order"], action(facts, arrays)
            return self._ordered[1]

    def _obeys(self, facts: dict[str, Any]) -> bool:
        """Whether what is asked comes from a trainer, or from the newest coordinator that is known."""
        if "writer_epoch" not in facts:
            return True
        self._obeyed = max(self._obeyed, self.writer_epoch(), facts["writer_epoch"])
        return bool(facts["writer_epoch"] == self._obeyed)

    def _answer_again(self, op: str, facts: dict[str, Any], arrays: Arrays) -> list[Any]:
        """The answer to a request that was executed before, from what there is now; nothing is applied."""
        if op == "dense":
            return self._do_dense({"want": facts.get("want", ""), "wire": facts.get("wire", "fp32")}, {})
        if op == "geo":
            return self._do_rows(facts, arrays)
        if op == "sync" and self._rounds().has_applied(facts["step"], generation=facts["generation"]):
            return self._values_of(facts)  # those of this very step: the next one needs who is asking
        return pack({"generation": self.generation})

    # What trainers ask

    def _do_dense(self, facts: dict[str, Any], arrays: Arrays) -> list[Any]:
        """Learn from a gradient, or move by a difference, or neither; answer with values if they are wanted."""
        block = self._block()
        with block.lock:
            if "gradient" in arrays:
                block.learn(torch.from_numpy(arrays["gradient"].copy()))
            if "difference" in arrays:
                block.add(torch.from_numpy(arrays["difference"].copy()))
            if facts.get("lease"):
                self._done[facts["lease"]] = max(facts["done"], self._done.get(facts["lease"], 0))
            wanted = {"values": block.values, "average": block.average}.get(facts.get("want", ""))
            out = {} if wanted is None else {"values": wanted.numpy().copy()}
        # An average is asked for to evaluate: figures are those of what is kept, not of what 16 bits leave of it.
        wire = facts.get("wire", "fp32") if facts.get("want") == "values" else "fp32"
        return pack({"steps": block.steps}, out, wire=wire, halved=("values",))

    def _do_sync(self, facts: dict[str, Any], arrays: Arrays) -> list[Any]:
        if not self._rounds().contribute(facts, arrays):
            return pack({"generation": self._rounds().generation})
        return self._values_of(facts)

    def _values_of(self, facts: dict[str, Any]) -> list[Any]:
        block = self._block()
        with block.lock:
            values = block.values.numpy().copy()
        return pack({"step": facts["step"]}, {"values": values}, wire=facts.get("wire", "fp32"), halved=("values",))

    def _do_leave_round(self, facts: dict[str, Any], arrays: Arrays) -> list[Any]:
        self._rounds().leave(facts["rank"], generation=facts["generation"])
        return pack({})

    def _do_rows(self, facts: dict[str, Any], arrays: Arrays) -> list[Any]:
        """Whole rows, for a trainer that keeps a copy."""
        table = self._table(facts["table"])
        rows = table.read_whole(arrays["keys"])
        return pack({}, {"rows": rows}, wire=facts.get("wire", "fp32"), halved=("rows",))

    def _do_geo(self, facts: dict[str, Any], arrays: Arrays) -> list[Any]:
        """Take what a trainer's copy of some rows has moved by; answer with what they are now."""
        table, keys = self._table(facts["table"]), arrays["keys"]
        columns = (arrays[name] for name in ("rows", "shows", "clicks", "slots"))
        table.add_whole(keys, *columns, tick=facts["tick"])
        self._begun[facts["lease"]] = facts["done"]
        return pack({}, {"rows": table.read_whole(keys)}, wire=facts.get("wire", "fp32"), halved=("rows",))

    # What the coordinator orders

    def _do_load(self, facts: dict[str, Any], arrays: Arrays) -> list[Any]:
        self.load(facts["checkpoint"], generation=facts["generation"], warm=facts["warm"])
        return pack({})

    def _do_round(self, facts: dict[str, Any], arrays: Arrays) -> list[Any]:
        self._rounds().begin(facts["ranks"])
        return pack({})

    def _do_save(self, facts: dict[str, Any], arrays: Arrays) -> list[Any]:
        """Write this server's part of a checkpoint. Nothing is under way: trainers have paused."""
        block, aside = self._block(), Path(facts["aside"])
        own = aside.with_name(part_of(aside, f"pserver.{self.part}.{self.incarnation}"))
        own.mkdir(exist_ok=True)
        self.wire.shut()
        try:
            files = checkpoint_files.write_tables(own, self.tables, part=self.part, parts=self.parts)
            with block.lock:
                tensors = {name: tensor.numpy().copy() for name, tensor in block.tensors().items()}
            sequences = [list(entry) for entry in self.wire.sequences()]
        except CheckpointError as error:  # the run's affair, not this server's
            return pack({"unwritable": f"pserver.{self.part}: {error}"})
        finally:
            self.wire.open()
        said = {"files": files, "directory": own.name, "steps": block.steps, "sequences": sequences}
        return pack(said, tensors)

    def _do_epoch(self, facts: dict[str, Any], arrays: Arrays) -> list[Any]:
        """Begin another epoch: rows that the job restarts learn anew."""
        try:
            restart_rows(
                self.tables,
                embeddings=self._embeddings,
                settings=self.job.tables,
                start=self._start,
                buckets=owned_buckets(part=self.part, parts=self.parts),
            )
        except CheckpointError as error:  # the run's affair, not this server's
            return pack({"unreadable": f"pserver.{self.part}: {error}"})
        return pack({})

    def _do_sweep(self, facts: dict[str, Any], arrays: Arrays) -> list[Any]:
        return pack({"evicted": sum(t.evict(facts["tick"], self.job.tables.count_decay) for t in self.tables.values())})

    def _do_progress(self, facts: dict[str, Any], arrays: Arrays) -> list[Any]:
        """How far each lease's pushes have come here: those of any table, and those of a whole batch."""
        self._fence(facts.get("replaced_clients", []))
        begun = self._begun | dict(self.wire.progress())
        return pack({"begun": list(begun.items()), "done": list(self._done.items())})

    def _do_forget(self, facts: dict[str, Any], arrays: Arrays) -> list[Any]:
        """Leases before this one are history, and so are clients that have died."""
        old = [lease for lease in {*self._begun, *self._done, *dict(self.wire.progress())} if lease < facts["before"]]
        self.wire.forget_progress(old)
        for lease in old:
            self._begun.pop(lease, None)
            self._done.pop(lease, None)
        self._fence(facts["clients"])
        return pack({})

    def _do_stats(self, facts: dict[str, Any], arrays: Arrays) -> list[Any]:
        return pack(self.stats())

    def _fence(self, clients: Sequence[int]) -> None:
        """Execute nothing of these any more: others go on with their work, and count from what is here now."""
        for client in sorted({*clients} - self._fenced):
            self._fenced.add(client)
            self.wire.fence(client)

    def _block(self) -> DenseBlock:
        if self.block is None:
            raise PeerError(f"pserver.{self.part} has loaded nothing yet")
        return self.block

    def _rounds(self) -> Rounds:
        if self.rounds is None:
            raise PeerError(f"pserver.{self.part} has loaded nothing yet")
        return self.rounds

    def _table(self, number: int) -> _native.Table:
        tables = list(self.tables.values())
        if not 0 <= number < len(tables):
            raise PeerError(f"pserver.{self.part} has {len(tables)} tables, no number {number}")
        return tables[number]


def vectors(tensors: dict[str, torch.Tensor], flat: Flat, *, step: int) -> tuple[dict[str, torch.Tensor], int]:
    """A checkpoint's dense tensors as those of a DenseBlock: value, average, optimizer state; and its steps.

    `step` is the checkpoint's, where no server wrote it: there each step was one of the optimizer.
    """
    out = {"value": flat.vector(_below(tensors, "model."))}
    averages = _below(tensors, "average.")
    out["average"] = flat.vector(averages) if averages else out["value"]
    states: dict[str, dict[str, torch.Tensor]] = {}
    for name in flat.named(flat.values):
        for key, tensor in _below(tensors, f"optimizer.{name}.").items():
            states.setdefault(key, {})[name] = tensor
    for key, named in states.items():
        whole = all(tensor.dim() for tensor in named.values())
        out[f"state.{key}"] = flat.vector(named) if whole else next(iter(named.values()))
    return out, int(tensors["steps"]) if "steps" in tensors else step


def _below(tensors: dict[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    return {name[len(prefix) :]: tensor for name, tensor in tensors.items() if name.startswith(prefix)}
