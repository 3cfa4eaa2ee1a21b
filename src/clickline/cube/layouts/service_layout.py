"""A layout whose members are found by name, as a headless service of Kubernetes has one for each of its pods.

A member's place follows from its name, so nobody has to be asked for it, and a pod that gets another address keeps its
name: names are what readers and transfer are given, and they resolve them whenever they connect. Only how many
replicas there are is found out here, by whether their names resolve; the service must publish the names of pods that
are not ready (`publishNotReadyAddresses`), since a server is not ready before transfer has reached it.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

from clickline.cube.layouts.layout import MOST_REPLICAS, Layout, LayoutsUnknownError, Replica
from clickline.cube.layouts.layout_settings import ServiceSettings
from clickline.net.addresses import host_and_port

Resolve = Callable[[str], bool]
"""Whether a host's name resolves. Raises OSError if that cannot be said now."""
_EVERY = 5.0
"""Seconds between two looks for further replicas."""
_NOT_THERE = (socket.EAI_NONAME, socket.EAI_NODATA)


def resolves(host: str) -> bool:
    """Whether the machine's resolver knows a name."""
    try:
        socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        if error.errno in _NOT_THERE:
            return False
        raise  # the name server cannot be asked, which says nothing about the name
    return True


class ServiceLayout:
    """The layout behind a service. For one thread at a time."""

    def __init__(
        self, settings: ServiceSettings, *, epoch: int = 1, resolve: Resolve = resolves, every: float = _EVERY
    ) -> None:
        self._settings, self._epoch, self._resolve, self._every = settings, epoch, resolve, every
        self._layout: Layout | None = None
        self._looked = 0.0

    def layouts(self) -> tuple[Layout, ...]:
        """The one layout. While a shard has no member whose name resolves, that of before, if there is one."""
        now = time.monotonic()
        if self._layout is None or (self._settings.replicas is None and now - self._looked >= self._every):
            self._looked = now
            # A name server that is away, or pods that are all being moved, must not take a shard from its readers.
            try:
                self._layout = self._look()
            except LayoutsUnknownError:
                if self._layout is None:
                    raise
        return (self._layout,)

    def _look(self) -> Layout:
        count = self._settings.replicas
        shards = []
        for shard in range(self._settings.shards):
            if count is not None:
                found = [self._settings.replica(shard=shard, replica=number) for number in range(count)]
            else:
                found = self._find(shard)
            shards.append(tuple(found))
        return Layout(self._epoch, tuple(shards))

    def _find(self, shard: int) -> list[Replica]:
        """Replicas up to the first two in a row without a name: one alone may be a pod that is being moved."""
        found: list[Replica] = []
        missing = 0
        for number in range(MOST_REPLICAS):
            replica = self._settings.replica(shard=shard, replica=number)
            try:
                known = replica.cube.startswith("unix:") or self._resolve(host_and_port(replica.cube)[0])
            except (OSError, ValueError) as error:
                raise LayoutsUnknownError(f"{replica.cube}: cannot be resolved now: {error}") from None
            missing = 0 if known else missing + 1
            if known:
                found.append(replica)
            if missing == 2:
                break
        if not found:
            first = self._settings.replica(shard=shard, replica=0).cube
            raise LayoutsUnknownError(f"no replica of shard {shard} has a name that resolves, such as {first}")
        return found
