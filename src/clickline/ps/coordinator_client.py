"""A process's connection to the coordinator: joining, heartbeats, and what the coordinator announces to everybody.

Heartbeats have a lane of their own, so a long wait on the other one is never taken for death. The coordinator answers
a heartbeat at once when it has news, else after one interval: that is how a pause or a stop reaches everybody quickly.

A process that was replaced by another of its name is told so in reply to whatever it asks next, and raises
ReplacedError. Replies of a coordinator that was itself replaced are not believed: each carries its writer epoch.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import msgspec
from numpy.typing import NDArray

from clickline import _native
from clickline.config.cluster import Cluster
from clickline.data.schema import Schema
from clickline.errors import CheckpointError, PeerError, ReplacedError
from clickline.processes.process_identity import birth, machine
from clickline.ps.held_name import HeldName
from clickline.ps.initial_model import InitialModel
from clickline.ps.protocol import member_messages
from clickline.ps.protocol.file_messages import CheckpointFileReply, CheckpointFileRequest
from clickline.ps.protocol.framing import Arrays, pack, unpack
from clickline.ps.protocol.member_messages import Figures, MemberReply, ServerLocation
from clickline.ps.protocol.model_messages import (
    DescribeModelReply,
    DescribeModelRequest,
    ModelReply,
    ModelRequest,
    described,
    model_in,
)
from clickline.ps.protocol.refusals import ErrorCode

log = logging.getLogger("clickline.cluster")
R = TypeVar("R", bound=MemberReply)
_FAREWELL = 2.0
"""Seconds to wait for a coordinator to take leave of."""
_RETRY_PAUSE = 0.2
"""Seconds between two tries where the reply was of a coordinator that was replaced."""


@dataclass(frozen=True, slots=True)
class MemberCallbacks:
    """What a client asks of its process, and tells it. They are called on the thread of the heartbeats."""

    stats: Callable[[], Figures] = dict
    """The figures that go with a heartbeat."""
    on_stop: Callable[[], None] = lambda: None
    """The run is over, or this process cannot go on: `failure` says which."""
    on_coordinator: Callable[[int], None] = lambda epoch: None
    """A coordinator of this writer epoch has answered."""
    on_servers: Callable[[Sequence[ServerLocation]], None] = lambda servers: None
    """Where the servers are, once it is known and whenever one has moved or was replaced."""


class CoordinatorClient:
    """This process as the coordinator knows it."""

    def __init__(
        self,
        *,
        role: str,
        rank: int,
        coordinator: str,
        token: bytes,
        job: str,
        cluster: Cluster,
        address: str = "",
        node: int = 0,
        callbacks: MemberCallbacks | None = None,
        describe_model: Callable[[Schema], InitialModel] | None = None,
    ) -> None:
        """`describe_model`: trainers: the model of the job, for a coordinator that does not know it."""
        self.role, self.rank, self._describe_model = role, rank, describe_model
        self.name = f"{role}.{rank}"
        self.client = secrets.randbits(62) + 1
        self._cluster = cluster
        self._callbacks = callbacks or MemberCallbacks()
        self._introduction = member_messages.JoinRequest(
            role=role,
            rank=rank,
            client=self.client,
            address=address,
            pid=os.getpid(),
            host=socket.gethostname(),
            node=node,
            machine=machine(),
            born=birth(os.getpid()),
        )
        self._coordinator = coordinator
        self.writer_epoch = 0
        """Of the newest coordinator that has answered."""
        self._servers = member_messages.ServerList("", [])
        self._following = threading.Lock()
        self._lane = partial(_native.Lane, [coordinator], token=token, job=job, name=self.name, client=self.client)
        # Lane 1 for requests, which may be held back for seconds; lane 2 for heartbeats, which must not wait for them.
        self._lanes: list[_native.Lane] = [
            self._lane(lane=lane, deadline=cluster.deadline, retry_for=cluster.retry_for) for lane in (1, 2)
        ]
        self._files: _native.Lane | None = None
        self._stopped = threading.Event()
        self._beating: threading.Thread | None = None
        self._more_figures: Figures = {}
        self.announced = member_messages.HeartbeatReply()
        """What the coordinator has announced last: pause, stop, generation."""
        self.failure: Exception | None = None
        """Why the heartbeats have ended, if not because the run is over."""
        self._heard_at: float | None = None

    def attach(self, callbacks: MemberCallbacks) -> None:
        """Call these from now on; they are told at once where the servers are."""
        # The lock orders this with a list that the heartbeat thread receives now: the new callbacks miss no list, and
        # do not get an older one after a newer one.
        with self._following:
            self._callbacks = callbacks
            callbacks.on_servers(self._servers.by_rank)

    def introduce(self, **changes: Any) -> None:
        """Change what this process says of itself when it joins, or joins again: fields of JoinRequest."""
        self._introduction = msgspec.structs.replace(self._introduction, **changes)

    def report_also(self, figures: Figures) -> None:
        """Send these figures with every heartbeat, beside those of the callbacks."""
        self._more_figures = {**self._more_figures, **figures}

    def stats(self) -> Figures:
        """The figures that go with a heartbeat."""
        return {**self._callbacks.stats(), **self._more_figures}

    def join(self) -> member_messages.JoinReply:
        """Introduce this process; wait until the coordinator has admitted it."""
        patience = self._cluster.start_timeout
        deadline = time.monotonic() + patience
        # A lane of its own, because only here a coordinator that is not there yet is waited for so long.
        lane = self._lane(lane=6, deadline=self._cluster.deadline, retry_for=patience)
        try:
            holder = HeldName(self.name, self._cluster)
            while True:
                try:
                    reply = self._introduce_on(lane)
                except PeerError as error:
                    raise PeerError(f"{self.name} does not reach coordinator.0: {error}") from error
                if reply.refusal is None:
                    break
                code, message = reply.refusal.code, reply.refusal.message
                if code == ErrorCode.NAME_HELD and reply.holder is not None:
                    self.introduce(seen_dead=holder.seen_dead(reply.holder))
                elif code == ErrorCode.RUN_OVER:
                    self.announced = member_messages.HeartbeatReply(stop=message)  # so ending now is not a failure
                    raise PeerError(f"{self.name} came when the run was ending: {message}")
                elif time.monotonic() > deadline:
                    raise PeerError(
                        f"{self.name} waited {patience:.0f} s for {message}: is it running? "
                        "cluster.start_timeout sets how long to wait"
                    )
        finally:
            lane.close()
        self._heard_at = time.monotonic()
        self.introduce(again=True, incarnation=reply.incarnation)
        self._follow_servers(reply.servers)
        if self._beating is None:
            self.announced = member_messages.HeartbeatReply(generation=reply.generation)
            self._beating = threading.Thread(target=self._beat, name="clickline-beat", daemon=True)
            self._beating.start()
        return reply

    def _introduce_on(self, lane: _native.Lane) -> member_messages.JoinReply:
        """Ask to be admitted, having described the model if the coordinator does not know it."""
        reply = self._call(lane, self._introduction, member_messages.JoinReply)
        if reply.refusal is None or reply.refusal.code != ErrorCode.MODEL_WANTED or self._describe_model is None:
            return reply
        description, arrays = described(self._describe_model(Schema.from_dict(reply.schema)))
        self._call(lane, DescribeModelRequest(model=description), DescribeModelReply, arrays)
        return self._call(lane, self._introduction, member_messages.JoinReply)

    def model(self) -> InitialModel | None:
        """What a trainer has told the coordinator of the model; None if none has yet."""
        # Longer than the coordinator holds it back, as in `ask`.
        deadline = max(self._cluster.deadline, 10)
        reply, arrays = self._exchange(self._file_lane(), ModelRequest(), ModelReply, deadline=deadline)
        if reply.refusal is not None and reply.refusal.code == ErrorCode.RUN_OVER:
            # Now, not with the next heartbeat: the coordinator does not wait for long before it is gone.
            self.announced = member_messages.HeartbeatReply(stop=reply.refusal.message)
            self._callbacks.on_stop()
        return None if reply.model is None else model_in(reply.model, arrays)

    def ask(
        self,
        request: member_messages.MemberRequest,
        reply: type[R],
        arrays: Arrays | None = None,
        *,
        once: bool = False,
        patience: float = 0.0,
    ) -> R:
        """Send the coordinator a request; `patience` is how long it may hold back the reply."""
        # Longer than the coordinator may hold the reply back, or held requests would be taken for lost and sent again.
        deadline = max(self._cluster.deadline, patience + 10)
        return self._call(self._lanes[0], request, reply, arrays, once=once, deadline=deadline)

    def _call(
        self,
        lane: _native.Lane,
        request: member_messages.MemberRequest,
        kind: type[R],
        arrays: Arrays | None = None,
        **options: Any,
    ) -> R:
        return self._exchange(lane, request, kind, arrays, **options)[0]

    def _exchange(
        self,
        lane: _native.Lane,
        request: member_messages.MemberRequest,
        kind: type[R],
        arrays: Arrays | None = None,
        **options: Any,
    ) -> tuple[R, Arrays]:
        """The reply of the newest coordinator. Raises ReplacedError if this process was replaced."""
        until = time.monotonic() + self._cluster.retry_for
        while True:
            body = pack(msgspec.structs.replace(request, writer_epoch=self.writer_epoch), arrays)
            reply, content = unpack(lane.call(request.operation, [body], **options)[0], kind)
            code = None if reply.refusal is None else reply.refusal.code
            if reply.writer_epoch >= self.writer_epoch and code != ErrorCode.COORDINATOR_REPLACED:
                self.writer_epoch = reply.writer_epoch
                # Before the reply is used: a server refuses orders of earlier coordinators from this point on.
                self._callbacks.on_coordinator(reply.writer_epoch)
                if reply.refusal is not None and code == ErrorCode.PROCESS_REPLACED:
                    raise ReplacedError(reply.refusal.message)
                return reply, content
            # A coordinator that was replaced may go on answering for a while; the new one has its address soon.
            if time.monotonic() > until:
                raise PeerError(
                    f"{self._coordinator} is answered by a coordinator that was replaced (number "
                    f"{reply.writer_epoch}; number {self.writer_epoch} has answered before): stop it, or see that the "
                    "address leads to the new one"
                )
            lane.set_address(0, self._coordinator, reconnect=True)
            self._stopped.wait(_RETRY_PAUSE)

    def checkpoint_chunk(self, checkpoint: str, file: str, offset: int) -> NDArray[Any]:
        """Bytes of a file of a checkpoint on the coordinator's host. Raises CheckpointError if it hands out none."""
        request = CheckpointFileRequest(checkpoint=checkpoint, file=file, offset=offset)
        reply, arrays = self._exchange(self._file_lane(), request, CheckpointFileReply)
        if reply.refusal is not None:
            raise CheckpointError(reply.refusal.message)
        return arrays["content"]

    def _file_lane(self) -> _native.Lane:
        # A lane of its own: a load that fetches files must not keep a request or the heartbeat waiting.
        if self._files is None:
            self._files = self._lane(lane=3, deadline=self._cluster.deadline, retry_for=self._cluster.retry_for)
            self._lanes.append(self._files)
        return self._files

    def _follow_servers(self, servers: member_messages.ServerList | None) -> None:
        if servers is not None:
            with self._following:
                self._servers = servers
                self._callbacks.on_servers(servers.by_rank)

    @property
    def stopping(self) -> str | None:
        """Why to stop, if so."""
        return self.announced.stop

    def not_taking_part(self) -> list[str]:
        """A sentence if this process has not joined, or has lost the coordinator, which answers each heartbeat."""
        if self.failure is not None:
            return [str(self.failure)]
        if self._heard_at is None:
            return [f"{self.name} has not joined the run"]
        silence = time.monotonic() - self._heard_at
        if silence > self._cluster.warn_after and self.stopping is None:
            return [f"{self.name} has not heard of the coordinator for {silence:.0f} s"]
        return []

    def leave(self) -> None:
        """Take leave and close. A coordinator that is gone is not waited for, as it would be while there is work."""
        self._stopped.set()
        if not self._lanes:
            return
        if self.failure is None:
            # A lane of its own: calls queue on a lane, and the heartbeat or a request may be under way on the others.
            lane = self._lane(lane=5, deadline=_FAREWELL, retry_for=_FAREWELL)
            with suppress(PeerError):
                lane.call(member_messages.LeaveRequest.operation, [pack(member_messages.LeaveRequest())])
            lane.close()
        for lane in self._lanes:
            lane.cancel()
        # The heartbeat thread may be in a call, which `cancel` has ended: it is awaited before its lane is closed.
        if self._beating is not None:
            self._beating.join(5.0)
        for lane in self._lanes:
            lane.close()

    def _beat(self) -> None:
        version = -1
        try:
            while not self._stopped.is_set():
                request = member_messages.HeartbeatRequest(
                    heard=version, stats=self.stats(), servers=self._servers.version
                )
                reply = self._call(self._lanes[1], request, member_messages.HeartbeatReply)
                if reply.refusal is not None:  # not_a_member: the coordinator is new, or has given this process up
                    # A refusal of this join needs no handling: the next heartbeat is refused as well, and joins again.
                    self._introduce_on(self._lanes[1])
                    continue
                version, self._heard_at = reply.version, time.monotonic()
                self._follow_servers(reply.servers)
                self.announced = reply
                if reply.stop is not None:
                    self._callbacks.on_stop()
                    return
        except Exception as error:
            if not self._stopped.is_set():
                self.failure = error
                if isinstance(error, ReplacedError):
                    log.error("%s; this process, number %d, ends", error, os.getpid())
                else:
                    log.error("lost the coordinator: %s", error)
                self._callbacks.on_stop()
