"""A trainer's connections to the parameter servers: one lane for pulls, one for everything that changes something.

So rows of the next batch can come in while gradients of the last one go out, and what changes something stays in order.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from clickline import _native
from clickline.config import Job
from clickline.ps.messages import pack, unpack


class Lines:
    """A trainer's two lanes to all servers."""

    def __init__(self, *, job: Job, addresses: list[str], token: bytes, name: str, client: int) -> None:
        cluster = job.cluster
        self.wire = cluster.wire
        self.servers = len(addresses)
        self._known: dict[int, tuple[str, int]] = {}
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

    def follow(self, servers: list[tuple[int, str, int]]) -> None:
        """Rank, address and incarnation of each server: one that was replaced is left at once, wherever it answers."""
        for rank, address, incarnation in servers:
            before, self._known[rank] = self._known.get(rank), (address, incarnation)
            if before != (address, incarnation) and rank < self.servers:
                for lane in (self.pulling, self.pushing):
                    lane.set_address(rank, address, reconnect=before is not None)

    def dense(
        self, parts: list[dict[str, NDArray[Any]]] | None = None, *, want: str = "values", lease: int = 0, done: int = 0
    ) -> list[NDArray[Any]]:
        """Bring each server something for its block; returns what was wanted of each, nothing for want=''.

        It comes after the rows of its batch, so a server that has it has all that it gets of the lease up to `done`.
        """
        facts = {"want": want, "lease": lease, "done": done, "wire": self.wire}
        halved = ("gradient", "difference")
        bodies = [pack(facts, part, wire=self.wire, halved=halved) for part in parts or [{}] * self.servers]
        replies = [unpack(reply) for reply in self.pushing.call("dense", bodies, once=parts is not None)]
        return [arrays["values"] for _, arrays in replies if "values" in arrays]

    def cancel(self) -> None:
        self.pulling.cancel()
        self.pushing.cancel()

    def close(self) -> None:
        self.cancel()
        self.pulling.close()
        self.pushing.close()

    def counters(self) -> dict[str, int]:
        one, other = self.pulling.counters(), self.pushing.counters()
        return {name: one[name] + other[name] for name in one}
