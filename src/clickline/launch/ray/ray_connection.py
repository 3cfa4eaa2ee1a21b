"""The runner in an actor, reached by calls of Ray, and what it reports."""

from __future__ import annotations

import threading
from collections.abc import Callable, Container
from contextlib import suppress
from typing import Any

import msgspec

from clickline.errors import PeerError
from clickline.launch.hosts.host_messages import (
    HostPlan,
    LauncherMessage,
    RunnerDone,
    StopCommand,
    event_of,
    line_of,
)
from clickline.launch.hosts.runner_connection import ConnectionLost, EventQueue, HostLost, HostMoved, RunnerConnection
from clickline.launch.ray.ray_cluster import RayCluster
from clickline.launch.ray.role_actor import RolePlace
from clickline.launch.ray.role_placement import RolePlacement

_REPORTS_WITHIN = 2.0
"""Seconds that an actor waits for reports before it answers that there are none."""
_LOOK_EVERY = 1.0


class RayConnection:
    """One try to run a role's plan in an actor. Events arrive in the queue; the last one ends it."""

    def __init__(
        self,
        cluster: RayCluster,
        plan: HostPlan,
        events: EventQueue,
        *,
        find: Callable[[], tuple[Any, RolePlace]],
    ) -> None:
        """`find` gives the actor and where it is; it may have to make one first, which may take a while."""
        self._cluster, self._plan, self._events, self._find = cluster, plan, events, find
        self._actor: Any = None
        self._closed = threading.Event()
        process = plan.processes[0]
        self._name = f"{process.role}.{process.rank}"
        self._thread = threading.Thread(target=self._follow, name=f"clickline-{self._name}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Have the runner stop its process and end."""
        self._closed.set()
        self.send(StopCommand())

    def send(self, message: LauncherMessage) -> None:
        actor = self._actor
        if actor is not None:
            with suppress(self._cluster.ray.exceptions.RayError):  # the thread that follows reports a loss
                actor.send.remote(line_of(message))

    def close(self, *, within: float) -> bool:
        """Wait for the end of the connection; end it if it does not come. Whether it came by itself."""
        self._closed.set()
        if self._actor is not None:
            self._thread.join(within)
        by_itself = not self._thread.is_alive()
        if self._actor is not None:
            self._cluster.ray.kill(self._actor)
        self._thread.join(2 * _LOOK_EVERY)
        return by_itself

    def _follow(self) -> None:
        ray = self._cluster.ray
        try:
            actor, place = self._find()
            plan = msgspec.structs.replace(self._plan, directory=place.directory)
            ray.get(actor.start.remote(line_of(plan)))
            # Looked at again: `stop` may have come before there was an actor to send it to.
            self._actor = actor
            if self._closed.is_set():
                self.send(StopCommand())
            while True:
                for line in ray.get(actor.take_reports.remote(_REPORTS_WITHIN)):
                    event = event_of(line)
                    self._events.put((self._plan.node, event))
                    if isinstance(event, RunnerDone):
                        return
        except (ray.exceptions.RayError, PeerError, ValueError) as error:
            reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            self._events.put((self._plan.node, ConnectionLost(f"{self._name} is lost: {reason}")))


class RayAccess:
    """The actors of a run: those that were made first, and others in their bundles when they are lost."""

    def __init__(
        self,
        cluster: RayCluster,
        placement: RolePlacement,
        *,
        actors: list[Any],
        places: list[RolePlace],
        prepare: Callable[[Any, int], RolePlace],
        restarts: int,
    ) -> None:
        """`prepare` makes an actor ready for its role."""
        self._cluster, self._placement, self._prepare, self._restarts = cluster, placement, prepare, restarts
        self._actors, self._places = list(actors), list(places)
        # Actors that no connection has had yet: the first one takes what was made before the run began.
        self._fresh = set(range(len(actors)))
        self._lost = [0] * len(actors)
        self._moved: set[int] = set()

    def connect(self, plan: HostPlan, events: EventQueue) -> RunnerConnection:
        def find() -> tuple[Any, RolePlace]:
            if plan.node in self._fresh:
                self._fresh.discard(plan.node)
            else:
                self._replace(plan, events)
            return self._actors[plan.node], self._places[plan.node]

        return RayConnection(self._cluster, plan, events, find=find)

    def _replace(self, plan: HostPlan, events: EventQueue) -> None:
        """Make a new actor for a role that was lost. A server must come to be where the others look for it."""
        number, before = plan.node, self._places[plan.node]
        with suppress(self._cluster.ray.exceptions.RayError, ValueError):
            self._cluster.ray.kill(self._actors[number])
        self._actors[number] = actor = self._placement.new_actor(number, silence=plan.silence)
        place = self._prepare(actor, number)
        if place.node != before.node:
            # A node that is prepared for a job is not left by its processes either.
            # Nobody connects to a trainer, so it may be anywhere. Addresses of the others are in everybody's plan.
            if plan.processes[0].role != "trainer" or plan.awaits_start:
                self._moved.add(number)
                raise PeerError(f"Ray has placed it at {place.address}, and others look for it at {before.address}")
            events.put((number, HostMoved(place.address)))
        self._places[number] = place
        self._lost[number] += 1

    def is_reachable(self, plan: HostPlan) -> bool:
        """Whether a role that was lost can be started again now.

        Raises HostLost if it never can be where the others look for it, PeerError if it was lost too often.
        """
        number, role = plan.node, plan.processes[0]
        place, name = self._places[number], f"{role.role}.{role.rank}"
        alive = self._cluster.is_alive(place.node)
        if (role.role != "trainer" or plan.awaits_start) and (number in self._moved or not alive):
            raise HostLost(f"the node {place.address} is lost, and {name} ran there", node=number)
        if self._lost[number] >= self._restarts:
            raise PeerError(
                f"the actor of {name} was lost {self._lost[number] + 1} times; Ray's logs on {place.address} say why "
                "(it may be too little memory); --resume goes on from the last checkpoint"
            )
        return alive or self._placement.is_whole()

    def lost_nodes(self, roles: Container[str]) -> list[str]:
        """Addresses of nodes that are gone with one of these roles on them."""
        alive = {node.id for node in self._cluster.nodes()}
        return sorted(
            {
                place.address
                for role, place in zip(self._placement.roles, self._places, strict=True)
                if role.role in roles and place.node not in alive
            }
        )
