"""What a parameter server does for each request, and the table in which a request finds it.

A request of a trainer that was executed before, and comes again because its reply was lost, is answered from what
there is now, and nothing is applied: `answer_again` of the operation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from clickline.errors import CheckpointError
from clickline.ps.protocol import file_messages
from clickline.ps.protocol import pserver_messages as messages
from clickline.ps.protocol.framing import Arrays, pack
from clickline.ps.protocol.refusals import ErrorCode, Refusal
from clickline.train.checkpoints import checkpoint_files
from clickline.train.checkpoints.warm_start import restart_rows
from clickline.train.sparse_tables import owned_buckets

if TYPE_CHECKING:
    from clickline.ps.server.server import ParameterServer

Buffers = list[Any]
"""A packed reply."""


@dataclass(frozen=True, slots=True)
class ServerOperation:
    """One entry of the table."""

    request: type[messages.ServerRequest]
    execute: Callable[[ParameterServer, Any, Arrays], Buffers]
    answer_again: Callable[[ParameterServer, Any, Arrays], Buffers]
    needs_model: bool = True
    """Wait until a model is loaded."""


# Requests of trainers


def dense(server: ParameterServer, request: messages.DenseRequest, arrays: Arrays) -> Buffers:
    """Learn from a gradient, or move by a difference, or neither; answer with values if they are wanted."""
    block = server.loaded_block
    with block.lock:
        if "gradient" in arrays:
            block.learn(arrays["gradient"])
        if "difference" in arrays:
            block.add(arrays["difference"])
        if request.lease:
            # The dense part of a batch comes after its rows, so the batch has arrived completely.
            done = server.leases.done
            done[request.lease] = max(request.done, done.get(request.lease, 0))
        wanted = {"values": block.values, "average": block.average}.get(request.want)
        values = {} if wanted is None else {"values": wanted.copy()}
    # An average is asked for to evaluate: figures are those of what is kept, not of what 16 bits leave of it.
    wire = request.wire if request.want == "values" else "fp32"
    return pack(messages.DenseReply(steps=block.steps), values, wire=wire, halved=("values",))


def dense_again(server: ParameterServer, request: messages.DenseRequest, arrays: Arrays) -> Buffers:
    return dense(server, messages.DenseRequest(want=request.want, wire=request.wire), {})


def sync(server: ParameterServer, request: messages.SyncRequest, arrays: Arrays) -> Buffers:
    """Contribute to a synchronous step, and wait until it is applied."""
    return _values_after(server, request, applied=server.loaded_rounds.contribute(request, arrays))


def sync_again(server: ParameterServer, request: messages.SyncRequest, arrays: Arrays) -> Buffers:
    # The values are those of this very step: the next one needs the share of the trainer that is asking.
    applied = server.loaded_rounds.has_applied(request.step, generation=request.generation)
    return _values_after(server, request, applied=applied)


def _values_after(server: ParameterServer, request: messages.SyncRequest, *, applied: bool) -> Buffers:
    if not applied:
        text = f"{server.name} is in generation {server.generation}, the share is of {request.generation}"
        return pack(messages.SyncReply(refusal=Refusal(ErrorCode.GENERATION_OVER, text)))
    block = server.loaded_block
    with block.lock:
        values = block.values.copy()
    return pack(messages.SyncReply(step=request.step), {"values": values}, wire=request.wire, halved=("values",))


def leave_round(server: ParameterServer, request: messages.LeaveRoundRequest, arrays: Arrays) -> Buffers:
    server.loaded_rounds.leave(request.rank, generation=request.generation)
    return pack(messages.LeaveRoundReply())


def rows(server: ParameterServer, request: messages.RowsRequest, arrays: Arrays) -> Buffers:
    """Whole rows, for a trainer that keeps copies."""
    whole = server.table(request.table).read_whole(arrays["keys"])
    return pack(messages.RowsReply(), {"rows": whole}, wire=request.wire, halved=("rows",))


def geo(server: ParameterServer, request: messages.GeoRequest, arrays: Arrays) -> Buffers:
    """Add the differences of a trainer's copies; answer with what the rows are now."""
    # Added, not assigned: other trainers have moved the same rows since this one copied them.
    columns = (arrays[name] for name in ("rows", "shows", "clicks", "slots"))
    server.table(request.table).add_whole(arrays["keys"], *columns, tick=request.tick)
    server.leases.begun[request.lease] = request.done
    return geo_again(server, request, arrays)


def geo_again(server: ParameterServer, request: messages.GeoRequest, arrays: Arrays) -> Buffers:
    whole = server.table(request.table).read_whole(arrays["keys"])
    return pack(messages.GeoReply(), {"rows": whole}, wire=request.wire, halved=("rows",))


# Orders of the coordinator


def load(server: ParameterServer, request: messages.LoadRequest, arrays: Arrays) -> Buffers:
    try:
        server.load(request.checkpoint, generation=request.generation, warm=request.warm, directory=request.directory)
    except CheckpointError as error:
        return pack(messages.LoadReply(refusal=_checkpoint_failed(server, error)))
    return pack(messages.LoadReply())


def begin_round(server: ParameterServer, request: messages.RoundRequest, arrays: Arrays) -> Buffers:
    server.loaded_rounds.begin(request.ranks)
    return pack(messages.RoundReply())


def save(server: ParameterServer, request: messages.SaveRequest, arrays: Arrays) -> Buffers:
    """Write this server's part of a checkpoint. Nothing is under way: trainers have paused."""
    block, checkpoints = server.loaded_block, server.checkpoints
    try:
        own, directory = checkpoints.begin_part(
            Path(request.staging), request.directory, writer=f"{server.name}.{server.incarnation}"
        )
    except CheckpointError as error:
        return pack(messages.SaveReply(refusal=_checkpoint_failed(server, error)))
    # Tables, dense block and sequence numbers must be of one moment: a push that is in the tables but not in the
    # sequence numbers would be applied again after a restart.
    server.wire.shut()
    try:
        files = checkpoint_files.write_tables(own, server.tables, part=server.part, parts=server.parts)
        with block.lock:
            dense = {name: array.copy() for name, array in block.arrays().items()}
        sequences = server.wire.sequences()
    except CheckpointError as error:
        return pack(messages.SaveReply(refusal=_checkpoint_failed(server, error)))
    finally:
        server.wire.open()
    if not directory:
        checkpoints.part_written(files)
    reply = messages.SaveReply(files=files, directory=directory, steps=block.steps, sequences=sequences)
    return pack(reply, dense)


def part(server: ParameterServer, request: file_messages.PartRequest, arrays: Arrays) -> Buffers:
    """A chunk of a file that the last `save` has left here."""
    content = server.checkpoints.part_chunk(request.file, request.offset) if request.file else b""
    if content is None:
        text = f"{server.name} has written no {request.file}"
        return pack(file_messages.PartReply(refusal=Refusal(ErrorCode.NO_SUCH_FILE, text)))
    return pack(file_messages.PartReply(), {"content": np.frombuffer(content, np.uint8)})


def begin_epoch(server: ParameterServer, request: messages.EpochRequest, arrays: Arrays) -> Buffers:
    """Begin another epoch: rows that the job restarts learn anew."""
    try:
        restart_rows(
            server.tables,
            embeddings=server.embeddings,
            settings=server.job.tables,
            start=server.start,
            buckets=owned_buckets(part=server.part, parts=server.parts),
        )
    except CheckpointError as error:
        return pack(messages.EpochReply(refusal=_checkpoint_failed(server, error)))
    return pack(messages.EpochReply())


def _checkpoint_failed(server: ParameterServer, error: CheckpointError) -> Refusal:
    return Refusal(ErrorCode.CHECKPOINT_FAILED, f"{server.name}: {error}")


def sweep(server: ParameterServer, request: messages.SweepRequest, arrays: Arrays) -> Buffers:
    decay = server.job.tables.count_decay
    return pack(messages.SweepReply(evicted=sum(table.evict(request.tick, decay) for table in server.tables.values())))


def progress(server: ParameterServer, request: messages.ProgressRequest, arrays: Arrays) -> Buffers:
    """How far each lease has come here. Replaced clients are fenced first, so that nothing comes after the count."""
    server.fence(request.replaced_clients)
    begun = server.leases.begun | dict(server.wire.progress())
    return pack(messages.ProgressReply(begun=list(begun.items()), done=list(server.leases.done.items())))


def forget(server: ParameterServer, request: messages.ForgetRequest, arrays: Arrays) -> Buffers:
    """Drop leases of epochs before, and fence clients that have died."""
    leases = server.leases
    old = [lease for lease in {*leases.begun, *leases.done, *dict(server.wire.progress())} if lease < request.before]
    server.wire.forget_progress(old)
    leases.forget(old)
    server.fence(request.clients)
    return pack(messages.ForgetReply())


def stats(server: ParameterServer, request: messages.StatsRequest, arrays: Arrays) -> Buffers:
    return pack(server.stats())


def acknowledge(server: ParameterServer, request: messages.ServerRequest, arrays: Arrays) -> Buffers:
    """Answer a request that was executed before and whose reply has nothing in it."""
    return pack(messages.ServerReply())


OPERATIONS: dict[str, ServerOperation] = {
    request.operation: ServerOperation(request, execute, again, needs_model=request is not messages.LoadRequest)
    for request, execute, again in (
        (messages.DenseRequest, dense, dense_again),
        (messages.SyncRequest, sync, sync_again),
        (messages.LeaveRoundRequest, leave_round, acknowledge),
        (messages.RowsRequest, rows, rows),
        (messages.GeoRequest, geo, geo_again),
        (messages.LoadRequest, load, acknowledge),
        (messages.RoundRequest, begin_round, acknowledge),
        (messages.SaveRequest, save, acknowledge),
        (file_messages.PartRequest, part, part),
        (messages.EpochRequest, begin_epoch, acknowledge),
        (messages.SweepRequest, sweep, acknowledge),
        (messages.ProgressRequest, progress, progress),
        (messages.ForgetRequest, forget, acknowledge),
        (messages.StatsRequest, stats, stats),
    )
}
"""By the name that travels in the CALL frame."""
