"""A placement group with a bundle for each role of a job, and the actors in it."""

from __future__ import annotations

import importlib
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from clickline.config import Job
from clickline.errors import PeerError
from clickline.launch.ray.ray_cluster import NAMESPACE, RayCluster
from clickline.launch.ray.role_actor import RoleActor

_HERE = 0.001
"""Of the resource that each node has by its address: it ties a bundle to the node."""
_MOST_BYTES = 512 << 20
_LOOK_EVERY = 0.5
_FORGOTTEN_WITHIN = 30.0
_THREADS = 4
"""Calls that an actor answers at the same time: one of them waits for reports."""


@dataclass(frozen=True, slots=True)
class PlacedRole:
    """A role, and what it needs of a node."""

    role: str
    rank: int
    cpus: int

    @property
    def name(self) -> str:
        return f"{self.role}.{self.rank}"


def roles_of(job: Job) -> list[PlacedRole]:
    """All roles of a job, first the one that leads it: the coordinator, or rank 0 of ranks alone."""
    cluster = job.cluster
    trainers = [PlacedRole("trainer", rank, cluster.threads or 1) for rank in range(cluster.trainers)]
    if job.resolved_strategy == "collective":
        return trainers
    servers = [PlacedRole("pserver", rank, 1) for rank in range(cluster.pservers)]
    return [PlacedRole("coordinator", 0, 1), *servers, *trainers]


class RolePlacement:
    """The bundles of a job's roles, spread over the nodes; the first one's is on this node, as the run's files are.

    Ray gives a bundle whose node is lost a place on another one.
    """

    def __init__(self, cluster: RayCluster, *, job: str, roles: Sequence[PlacedRole]) -> None:
        self._cluster, self._job, self.roles = cluster, job, roles
        # Not attributes of the package until they are imported.
        self._groups = importlib.import_module("ray.util.placement_group")
        self._strategies = importlib.import_module("ray.util.scheduling_strategies")
        self._lock = threading.Lock()
        self._actors: list[Any] = []
        self._removed = False
        bundles: list[dict[str, float]] = [{"CPU": role.cpus} for role in roles]
        bundles[0][f"node:{cluster.own_address()}"] = _HERE
        self._group = self._groups.placement_group(bundles, strategy="SPREAD", name=job)

    def await_ready(self, *, within: float) -> None:
        """Wait until every role has a place. Raises PeerError that says what is missing."""
        until = time.monotonic() + within
        while not self._group.wait(timeout_seconds=_LOOK_EVERY):
            if time.monotonic() > until:
                raise PeerError(self._missing(within))

    def _missing(self, within: float) -> str:
        free = self._cluster.ray.available_resources().get("CPU", 0)
        nodes = self._cluster.nodes()
        return (
            f"the cluster has had no room for the job for {within:.0f} s: {len(self.roles)} processes need "
            f"{sum(role.cpus for role in self.roles)} CPUs, one of them on this node, and {free:g} of "
            f"{sum(node.cpus for node in nodes):g} are free on {len(nodes)} nodes; add nodes, wait for other jobs, or "
            "lower cluster.trainers, cluster.pservers or cluster.threads"
        )

    def is_whole(self) -> bool:
        """Whether every bundle has a place: not so from the loss of a node until there is room on another."""
        return bool(self._groups.placement_group_table(self._group).get("state") == "CREATED")

    def new_actor(self, index: int, *, silence: float) -> Any:
        """An actor in the bundle of a role, as soon as Ray has forgotten an earlier one of its name."""
        role = self.roles[index]
        name = f"{self._job}/{role.name}"
        strategy = self._strategies.PlacementGroupSchedulingStrategy(
            placement_group=self._group, placement_group_bundle_index=index
        )
        options = {"name": name, "namespace": NAMESPACE, "num_cpus": role.cpus, "max_concurrency": _THREADS}
        actor_class = self._cluster.ray.remote(RoleActor).options(**options, scheduling_strategy=strategy)
        until = time.monotonic() + _FORGOTTEN_WITHIN
        while True:
            # Actors of roles that are lost are made on threads: none may be made after everything was removed.
            with self._lock:
                if self._removed:
                    raise PeerError(f"{role.name} is not wanted any more")
                try:
                    actor = actor_class.remote(name, silence)
                    self._actors.append(actor)
                    return actor
                except ValueError:
                    if time.monotonic() > until:
                        raise PeerError(f"Ray still has an actor {name}, which was lost") from None
            time.sleep(_LOOK_EVERY)

    def remove(self) -> None:
        """End all actors, and free the bundles."""
        with self._lock:
            self._removed = True
            for actor in self._actors:
                with suppress(self._cluster.ray.exceptions.RayError):
                    self._cluster.ray.kill(actor)
        self._groups.remove_placement_group(self._group)
