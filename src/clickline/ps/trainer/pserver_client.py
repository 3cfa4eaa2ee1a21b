"""A trainer's connections to the parameter servers: one lane for pulls, one for everything that changes something.

So rows of the next batch can come in while gradients of the last one go out, and what changes something stays in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from numpy.typing import NDArray

from clickline import _native
from clickline.config import Job
from clickline.ps.protocol.framing import Arrays, pack, unpack
from clickline.ps.protocol.member_messages import ServerLocation
from clickline.ps.protocol.pserver_messages import DenseReply, DenseRequest, ServerReply, ServerRequest

R = TypeVar("R", bound=ServerReply)


class PserverClient:
    """A trainer's two lanes to all servers."""

    def __init__(self, *, job: Job, addresses: list[str], token: bytes, name: str, client: int) -> None:
        cluster = job.cluster
        self.wire = cluster.wire
        self.servers = len(addresses)
        self._locations: dict[int, ServerLocation] = {}
        self.pulling, self.pushing = (
            _native.Lane(
                addresses,
                token=token,
                job=job.name,
                name=name,
                client=client,
                lane=lane,
                deadline=cluster.deadline,
                retry_for=cluster.retry_for,
            )
            for lane in (3, 4)
        )

    def follow(self, servers: Sequence[ServerLocation]) -> None:
        """Go to where the servers are now: one that was replaced is left at once, wherever it still answers."""
        for server in servers:
            before, self._locations[server.rank] = self._locations.get(server.rank), server
            if before != server and server.rank < self.servers:
                for lane in (self.pulling, self.pushing):
                    lane.set_address(server.rank, server.address, reconnect=before is not None)

    def call(
        self,
        request: ServerRequest,
        reply: type[R],
        parts: Sequence[Arrays] | None = None,
        *,
        once: bool,
        halved: Sequence[str] = (),
        deadline: float | None = None,
    ) -> list[tuple[R, Arrays]]:
        """Send all servers a request, each with its part of the arrays, on the lane of what changes something.

        `once`: the request is numbered, so that a server executes it once however often it is sent. Arrays that are
        named `halved` travel in the job's number format.
        """
        bodies = [pack(request, part, wire=self.wire, halved=halved) for part in parts or [{}] * self.servers]
        replies = self.pushing.call(request.operation, bodies, once=once, deadline=deadline)
        return [unpack(body, reply) for body in replies]

    def dense(
        self, parts: Sequence[Arrays] | None = None, *, want: str = "values", lease: int = 0, done: int = 0
    ) -> list[NDArray[Any]]:
        """Send each server a gradient or a difference for its block; returns the blocks, or nothing for want=''.

        It is sent after the rows of its batch, so a server that has it has all that it gets of the lease up to `done`.
        """
        request = DenseRequest(want=want, lease=lease, done=done, wire=self.wire)
        replies = self.call(request, DenseReply, parts, once=parts is not None, halved=("gradient", "difference"))
        return [arrays["values"] for _, arrays in replies if "values" in arrays]

    def cancel(self) -> None:
        self.pulling.cancel()
        self.pushing.cancel()

    def close(self) -> None:
        self.cancel()
        self.pulling.close()
        self.pushing.close()

    def counters(self) -> dict[str, int]:
        pulling, pushing = self.pulling.counters(), self.pushing.counters()
        return {name: pulling[name] + pushing[name] for name in pulling}
