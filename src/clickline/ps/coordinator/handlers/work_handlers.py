"""Handlers of a trainer's work: leases, reports, and pauses for a snapshot."""

from __future__ import annotations

import time

from clickline.ps.coordinator.handlers.context import REPLY_WITHIN, Caller, HandlerContext
from clickline.ps.coordinator.state.members import Member
from clickline.ps.coordinator.state.run_state import RunState
from clickline.ps.protocol import work_messages
from clickline.ps.protocol.framing import Arrays
from clickline.ps.protocol.work_messages import Action, WorkItem

_NO_LIMIT = 1 << 62


def next_work(
    context: HandlerContext, caller: Caller, request: work_messages.NextRequest, arrays: Arrays
) -> work_messages.NextReply:
    """Work for a trainer; WAIT if there is none within the time for which a request may be held back.

    A trainer that asks is idle: everything that it has learned is at the servers. That is what a snapshot waits for.
    """
    state, member = context.state, caller.living
    lifecycle, idle = state.lifecycle, state.snapshots.idle
    deadline = time.monotonic() + REPLY_WITHIN
    if not request.holding:  # else it has differences to send, and is not idle before it has sent them
        idle.add(member.client)
        state.changed.notify_all()
    try:
        while lifecycle.stop_reason is None:
            # The lock was given up while this request waited. The trainer may have died meanwhile, and its leases may
            # have been returned: a lease that it got now would be with nobody, and the epoch would wait for ever.
            if not state.members.lives(member):
                return rejoin(context)
            reply = _offered(state, member, request)
            if reply is not None:
                return reply
            if request.holding:
                break
            if not state.changed.wait(max(deadline - time.monotonic(), 0.0)) and time.monotonic() >= deadline:
                break
    finally:
        if not state.members.lives(member):
            idle.discard(member.client)
        elif lifecycle.stop_reason is not None:
            member.leaving = True  # it is told to stop by this reply, so its end is in order
    if lifecycle.stop_reason is not None:
        return work_messages.NextReply(do=Action.STOP, why=lifecycle.stop_reason)
    return work_messages.NextReply(do=Action.WAIT, generation=state.record.generation)


def _offered(state: RunState, member: Member, request: work_messages.NextRequest) -> work_messages.NextReply | None:
    """A lease for this trainer, or the hint that its round has no more data; None if it must wait."""
    leases, record = state.leases, state.record
    lockstep = state.lockstep and leases.offered == Action.TRAIN
    # In lockstep pieces belong to names, so that the same trainers take the same steps again after a rollback. Else
    # they belong to processes: what a process had is not that of the next one of its name.
    holder = member.name if lockstep else member.holder
    # During a pause a new piece would be work under way; the leases of an orphaned holder are about to be returned.
    waiting = state.snapshots.pausing or state.lifecycle.rollback_wanted or holder in state.failures.orphaned
    if leases.offered is None or waiting:
        return None
    # A lease that this trainer has without knowing was in a reply that was lost: it must come before a new one.
    lease = leases.unknown_to(holder, request.leases) or leases.table.take(holder, node=member.node)
    if lease is None:
        round_ = work_messages.Round(record.generation, record.epoch)
        if not lockstep or request.left == round_:
            return None
        # The servers wait for this trainer's share of every step. It leaves the round at the servers first, and is not
        # idle until it has: a snapshot in between would find the others in the middle of a step.
        state.windows.reached[member.client] = _NO_LIMIT
        state.snapshots.idle.discard(member.client)
        return work_messages.NextReply(do=Action.WAIT, drained=round_, generation=record.generation)
    state.snapshots.idle.discard(member.client)
    state.remember()  # before the trainer hears of it: a coordinator that takes over must know the lease
    work = WorkItem(
        lease=lease.number,
        skip=lease.skip,
        piece=leases.pieces[lease.piece],
        epoch=record.epoch,
        generation=record.generation,
        start=leases.start_step,
        last_step=state.snapshots.last_step,
        warm=record.warm is not None,
    )
    return work_messages.NextReply(do=leases.offered, work=work, generation=record.generation)


def rejoin(context: HandlerContext) -> work_messages.NextReply:
    return work_messages.NextReply(do=Action.JOIN)


def finished(
    context: HandlerContext, caller: Caller, request: work_messages.FinishedRequest, arrays: Arrays
) -> work_messages.FinishedReply:
    """A piece is done: its rows count once, for the lease that is current."""
    state = context.state
    if request.generation != state.record.generation:
        return work_messages.FinishedReply(counted=False)
    # Before the lease is finished, after which nobody knows whose piece it was.
    piece = state.leases.piece_of(request.lease)
    if piece is not None and "labels" in arrays:
        state.windows.scores.add(piece, arrays)
    counted = state.leases.table.finish(request.lease, request.rows)
    if counted and piece is not None and state.leases.trains:
        state.data.note_rows(piece, request.rows)
    # Written before the reply, with which the trainer forgets the lease: a coordinator that takes over would take it
    # for one whose reply was lost, and offer it again.
    state.remember()
    state.changed.notify_all()
    return work_messages.FinishedReply(counted=counted)


def not_counted(context: HandlerContext) -> work_messages.FinishedReply:
    return work_messages.FinishedReply(counted=False)


def failed(
    context: HandlerContext, caller: Caller, request: work_messages.FailedRequest, arrays: Arrays
) -> work_messages.FailedReply:
    """A trainer cannot go on: the run ends with its reason."""
    context.state.failures.note(request.reason)
    context.state.stop(request.reason)
    return work_messages.FailedReply()


def paused(
    context: HandlerContext, caller: Caller, request: work_messages.PausedRequest, arrays: Arrays
) -> work_messages.PausedReply:
    """A trainer stands still with nothing under way, until the snapshot is taken."""
    state, snapshots, record = context.state, context.state.snapshots, context.state.record
    if request.generation != record.generation:
        return work_messages.PausedReply(generation=record.generation)
    # Also of a trainer that was taken for dead: its gradients are at the servers, so the rows are trained.
    for lease, rows in request.progress:
        state.leases.table.progress(lease, rows)
    member = state.members.by_client.get(caller.client)
    if member is None or not state.members.lives(member):  # its leases go to others
        return abandon(context)
    if arrays and request.rank == min((m.rank for m in state.members.live("trainer")), default=0):
        # Copies: unpacked arrays are views into the message, and the snapshot is taken after this request.
        snapshots.buffers = {name: array.copy() for name, array in arrays.items()}
    if state.lockstep and request.step >= snapshots.next_step:
        snapshots.pausing = (
            True  # the first one to arrive at the step begins the pause; the others arrive by themselves
        )
    snapshots.idle.add(member.client)
    state.changed.notify_all()
    over = state.changed.wait_for(
        lambda: (
            not snapshots.pausing
            or state.lifecycle.stop_reason
            or request.generation != record.generation
            or not state.members.lives(member)
        ),
        REPLY_WITHIN,
    )
    # If the pause is not over the trainer asks again, and must stay idle in between: a snapshot may be under way.
    if over:
        snapshots.idle.discard(member.client)
    if not state.members.lives(member):
        return abandon(context)
    # The run ends with this snapshot, so the rest of the piece is not trained.
    enough = 0 < snapshots.last_step <= record.step or state.lifecycle.stop_reason is not None
    return work_messages.PausedReply(wait=not over, abandon=enough, generation=record.generation)


def abandon(context: HandlerContext) -> work_messages.PausedReply:
    return work_messages.PausedReply(abandon=True, generation=context.state.record.generation)


def report(
    context: HandlerContext, caller: Caller, request: work_messages.ReportRequest, arrays: Arrays
) -> work_messages.ReportReply:
    """Batches that a trainer has trained. Rows of a generation that is over count for nothing."""
    state, record = context.state, context.state.record
    if request.generation != record.generation:
        return work_messages.ReportReply()
    # For the progress that people see. A trainer may die with batches unreported; what a checkpoint says of rows is
    # counted by the lease table (LeasedWork.count_rows).
    record.rows += int(arrays["sizes"].sum())
    record.tick = max(record.tick, request.tick)
    if state.lockstep:
        state.windows.reached[caller.client] = request.step
        record.step = max(record.step, request.step + 1)
    else:
        record.step += len(arrays["losses"])
    state.windows.window.add(arrays)
    context.on_report()
    state.changed.notify_all()
    return work_messages.ReportReply()
