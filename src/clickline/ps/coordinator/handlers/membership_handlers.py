"""Handlers of a process's membership: joining, heartbeats, leaving."""

from __future__ import annotations

from clickline.ps.coordinator.handlers.context import REPLY_WITHIN, Caller, HandlerContext
from clickline.ps.coordinator.state.members import Member, MemberState
from clickline.ps.protocol import member_messages
from clickline.ps.protocol.framing import Arrays
from clickline.ps.protocol.refusals import ErrorCode, Refusal


def join(
    context: HandlerContext, caller: Caller, request: member_messages.JoinRequest, arrays: Arrays
) -> member_messages.JoinReply:
    """Admit a process under its name, or say why not."""
    state, lifecycle, incarnations = context.state, context.state.lifecycle, context.state.incarnations
    if not state.changed.wait_for(lambda: lifecycle.opened or lifecycle.stop_reason, REPLY_WITHIN):
        return _not_ready("the coordinator")
    # A name may become free at any moment: whoever started the holder knows of its death before it is missed.
    state.changed.wait_for(lambda: not _name_is_held(context, request), REPLY_WITHIN)
    # Checked again after the waits. The lock is not released between this check and `add`, so of two processes that
    # want one name only one is admitted.
    refused = incarnations.refusal(request)
    if refused is not None:
        return member_messages.JoinReply(refusal=refused.refusal, holder=refused.holder)
    # Servers, for which trainers wait, can load nothing before the model is known, and only trainers can build it.
    if request.role == "trainer" and state.model is None and lifecycle.stop_reason is None:
        state.asked_for_model.add(request.client)
        return member_messages.JoinReply(refusal=Refusal(ErrorCode.MODEL_WANTED), schema=state.schema.to_dict())
    incarnation, is_new = incarnations.admit(request)
    member, old = state.members.add(request, incarnation=incarnation)
    if member.role == "trainer":
        state.data.admit(member, request.files)
    if old is not None:
        # The leases of the old one are not the new one's, although the name is. Only a holder that died by itself may
        # have died of its piece of data.
        died = request.seen_dead == old.client
        context.failures.give_up(old, "died" if died else f"was replaced by {member.process}", blame=died)
    # It is back, so servers must not forget it as departed.
    state.failures.departed = [client for client in state.failures.departed if client != member.client]
    # Before the reply: without this record a coordinator that takes over would give the incarnation out again.
    if is_new:
        state.save()
    reply = member_messages.JoinReply(
        incarnation=incarnation,
        generation=state.record.generation,
        schema=state.schema.to_dict(),
        checkpoint=lifecycle.served_checkpoint,
        warm=state.record.warm,
        directory=state.record_file.directory,
    )
    if member.role == "pserver":
        _admit_server(context, request, member, reply, replaces=old is not None)
    elif (refusal := _admit_trainer(context, request, member, reply)) is not None:
        return refusal
    state.announce()
    return reply


def _name_is_held(context: HandlerContext, request: member_messages.JoinRequest) -> bool:
    refused = context.state.incarnations.refusal(request)
    return refused is not None and refused.refusal.code == ErrorCode.NAME_HELD


def _admit_server(
    context: HandlerContext,
    request: member_messages.JoinRequest,
    member: Member,
    reply: member_messages.JoinReply,
    *,
    replaces: bool,
) -> None:
    state, lifecycle = context.state, context.state.lifecycle
    if request.generation == state.record.generation:
        member.ready = True  # it has been serving all along, and it is this coordinator that is new
    if not lifecycle.begun:
        # A coordinator that takes over decides by this whether the servers' tables can be gone on with.
        if request.generation is None:
            lifecycle.empty_servers.add(member.name)
        elif request.generation != state.record.generation:
            lifecycle.stale_servers = True
    reply.replaced_clients = state.incarnations.replaced
    state.servers.put(member.rank, member.address, member.incarnation)
    was_absent = state.failures.absent_since.pop(member.name, None) is not None
    if replaces or was_absent:
        context.on_server_moved(member.rank, member.address)
        state.failures.note(f"{member.name} came back")
        # In lockstep everybody goes back to the last snapshot, and the server is told what to load by that.
        reply.hold = state.lockstep and lifecycle.begun and not lifecycle.final
        if reply.hold:
            lifecycle.rollback_wanted = True


def _admit_trainer(
    context: HandlerContext, request: member_messages.JoinRequest, member: Member, reply: member_messages.JoinReply
) -> member_messages.JoinReply | None:
    """Wait for the servers, without which a trainer can do nothing; a refusal, or None if the reply is complete."""
    state, lifecycle = context.state, context.state.lifecycle
    servers = state.job.cluster.pservers
    if not state.changed.wait_for(lambda: state.ready(pservers=servers) or lifecycle.stop_reason, REPLY_WITHIN):
        return _not_ready(", ".join(state.missing()) or "the servers")
    if lifecycle.stop_reason is not None:  # there may be no server left to train with
        return member_messages.JoinReply(refusal=Refusal(ErrorCode.RUN_OVER, lifecycle.stop_reason))
    if not state.members.lives(member):
        return _not_ready("the coordinator, which took this process for dead meanwhile")
    if not request.again:
        state.snapshots.idle.add(member.client)  # it builds its model, and changes nothing before it asks for work
    reply.pservers = [server.address for server in state.members.live("pserver")]
    reply.servers = state.servers.to_list()
    reply.step = state.record.step
    return None


def _not_ready(what: str) -> member_messages.JoinReply:
    return member_messages.JoinReply(refusal=Refusal(ErrorCode.NOT_READY, what))


def ready(
    context: HandlerContext, caller: Caller, request: member_messages.ReadyRequest, arrays: Arrays
) -> member_messages.ReadyReply:
    """A server has loaded, also if it was taken for dead meanwhile and has yet to join again."""
    member = context.state.members.by_client.get(caller.client)
    if member is not None:
        member.ready, member.sees_directory = True, request.sees_directory
    context.state.announce()
    return member_messages.ReadyReply()


def heartbeat(
    context: HandlerContext, caller: Caller, request: member_messages.HeartbeatRequest, arrays: Arrays
) -> member_messages.HeartbeatReply:
    """Note the sign of life; answer when there is news, at the latest after one interval."""
    state, lifecycle, member = context.state, context.state.lifecycle, caller.living
    lost_before = member.lost_pushes
    state.members.heartbeat(member, request.stats)
    context.failures.note_lost_pushes(member, before=lost_before)
    state.announced.wait_for(
        lambda: lifecycle.version != request.heard or lifecycle.stop_reason or not state.members.lives(member),
        state.job.cluster.heartbeat,
    )
    if not state.members.lives(member):
        return not_a_member(context)
    reply = member_messages.HeartbeatReply(
        version=lifecycle.version,
        pause=state.snapshots.pausing,
        pause_at=state.snapshots.pause_at,
        stop=lifecycle.stop_reason,
        generation=state.record.generation,
    )
    if member.role == "trainer" and request.servers != state.servers.version:
        reply.servers = state.servers.to_list()
    return reply


def not_a_member(context: HandlerContext) -> member_messages.HeartbeatReply:
    return member_messages.HeartbeatReply(refusal=Refusal(ErrorCode.NOT_A_MEMBER))


def leave(
    context: HandlerContext, caller: Caller, request: member_messages.LeaveRequest, arrays: Arrays
) -> member_messages.LeaveReply:
    """A process ends. Unless the run is over, its leases go to others at once."""
    state = context.state
    member = state.members.by_client.get(caller.client)
    if member is not None and state.lifecycle.stop_reason is None:
        context.failures.give_up(member, "left", blame=False)
        # It cannot come back, so servers may be told to forget it (`take_departed`).
        state.incarnations.retire(member.client, f"{member.name} has left")
    elif member is not None:
        member.leaving = True
        member.state = MemberState.DONE
    state.changed.notify_all()
    return member_messages.LeaveReply()
